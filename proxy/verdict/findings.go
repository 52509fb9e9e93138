package verdict

import (
	"net/http"
	"strings"
	"time"

	"vitrine/upstream/shape"
)

// outage is from how many failed fetches in a row on a document has one.
const outage = 2

// endsSoon is how long before its end a certificate is a finding.
const endsSoon = 14 * 24 * time.Hour

// process finds what is about the process and its neighbours.
func (v *Verdict) process(s *Snapshot) {
	if s.Draining {
		v.say("stopping", "This process is stopping.")
	}
	switch left := s.CertificateEnds.Sub(s.Now); {
	case s.CertificateEnds.IsZero() || left > endsSoon:
	case left > 0:
		v.say("certificate-ends", "The TLS certificate expires: "+Clock(s.CertificateEnds, s.Now)+".")
	default:
		v.say("certificate-expired", "The TLS certificate has expired.")
	}
	if s.MaxConnections > 0 && s.Connections >= s.MaxConnections {
		v.say("connections", "The limit of connections is reached.")
	}
	if s.ReloadFailed {
		v.say("reload-failed", "The configuration was not reloaded: the former one is in use.")
	}
	for _, e := range s.Notify {
		if e.Error != "" {
			v.say("not-notified", e.Name+" cannot be notified of changes: "+e.Error, e.Name)
		}
	}
	switch v.Redis = Good; {
	case !s.Redis.Up:
		v.Redis = Down
		v.say("redis-unreachable", "Redis is unreachable: this replica serves on its own and receives no purges.")
	case s.Redis.Refusing != "":
		v.Redis = Degraded
		v.say("redis-refuses-writes", "Redis refuses writes: "+s.Redis.Refusing)
	case !s.Redis.Answering:
		v.Redis = Degraded
		v.say("purges-not-received", "Redis does not answer polls: purges are not received.")
	case s.Redis.BoundNeeded > 0:
		v.say("redis-slow", "Redis is too far away for redis.purge_bound, and every answer waits for it.")
	}
}

// fetching finds what keeps documents from being fetched.
func (v *Verdict) fetching(s *Snapshot) {
	var failing []string
	elsewhere := false
	for _, r := range shape.Resources() {
		d := s.Documents[r]
		if d.Failures >= outage {
			v.Outages[r] = d.cannot(r)
		}
		if d.Failing {
			failing = append(failing, string(r))
		} else if h := d.Held; h != nil && h.Restored == nil && h.FetchedAt.After(s.CMS.Breaker.Opened) {
			elsewhere = true // another replica has fetched since the breaker opened
		}
		if d.unservable() {
			v.say("unservable", Capital(r)+": nothing can be served"+d.because()+".", string(r))
		}
	}
	switch v.CMS = Good; {
	case s.CMS.BreakerOpen && !elsewhere || len(failing) == shape.Count:
		v.CMS = Down
		what := "The CMS cannot be fetched from."
		if s.CMS.BreakerOpen {
			what = "The CMS keeps failing; the circuit breaker is open."
		}
		if len(failing) > 0 {
			d := s.Documents[shape.Resource(failing[0])]
			what = strings.TrimSuffix(what, ".") + d.because() + "."
		}
		v.say("cms-down", what)
	case len(failing) > 0:
		v.CMS = Degraded
		for _, r := range failing {
			d := s.Documents[shape.Resource(r)]
			if d.unservable() {
				continue // which is worse, and said above
			}
			v.say(d.failure(), d.cannot(shape.Resource(r)), r)
		}
	}
}

// unservable reports whether visitors get an error.
func (d *Document) unservable() bool { return d.Unanswered || d.Held == nil && d.Failing }

// failure is the kind of a fetch that failed.
func (d *Document) failure() string {
	switch last := d.LastFetch; {
	case last == nil:
	case last.Rejected:
		return "rejected"
	case last.Status == http.StatusUnauthorized, last.Status == http.StatusForbidden:
		return "unauthorized"
	}
	return "fetch-fails"
}

// because is why a document cannot be fetched, within a sentence.
func (d *Document) because() string {
	cause := d.Cause
	if last := d.LastFetch; last != nil && last.Cause != "" { // which is in full
		cause = last.Cause
	}
	if cause == "" {
		return ""
	}
	return " (" + cause + ")"
}

func (d *Document) cannot(r shape.Resource) string {
	return Capital(r) + " cannot be fetched from the CMS" + d.because() + "."
}

// documents finds what is about cached copies.
func (v *Verdict) documents(s *Snapshot) {
	by := map[string][]string{}
	var foreign []string
	for _, r := range shape.Resources() {
		d, name := s.Documents[r], string(r)
		state := d.State(v.CMS)
		said := state == StateStale && (d.Failing || d.HeldBack != nil || v.CMS == Down) || state == StateMissing && d.unservable()
		if !said { // by another finding
			by[state] = append(by[state], name)
		}
		if h := d.Held; h != nil && h.Restored != nil {
			v.say("restored", Capital(name)+": "+h.Restored.By+" restored an earlier version, until "+Clock(h.Restored.Until, s.Now)+".", name)
		}
		if d.Foreign {
			foreign = append(foreign, name)
		}
		if h := d.HeldBack; h != nil {
			f, until := v.say("held-back", Capital(name)+": the CMS's document is held back ("+h.Reason+").", name), "until it is accepted"
			if h.Until != nil {
				until = "until " + Clock(*h.Until, s.Now)
			}
			f.Affects, f.Since = strings.ReplaceAll(f.Affects, "UNTIL", until), &h.Since
		}
		for _, w := range d.Suspicions {
			v.say("content-warning", "Content warning for the "+name+": "+w.Warning()+".", name).key += " " + string(w.Kind)
		}
	}
	if len(foreign) > 0 {
		v.say("foreign", Capital(names(foreign))+": the fleet has another source; nothing is fetched here.", foreign...)
	}
	for _, state := range []struct{ is, kind, what string }{
		{StateStale, "stale", ": the cached copy is stale."},
		{StateMissing, "missing", ": no copy is cached; the next request fetches it."},
		{StateIdle, "idle", ": not requested lately; the next request refreshes the copy."},
	} {
		if about := by[state.is]; len(about) > 0 {
			v.say(state.kind, Capital(names(about))+state.what, about...)
		}
	}
}
