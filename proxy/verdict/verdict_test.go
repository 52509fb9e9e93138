package verdict

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

var now = time.Date(2026, 11, 25, 3, 0, 0, 0, time.Local)

// well is a snapshot in which nothing is wrong.
func well() Snapshot {
	s := Snapshot{
		Now: now, Redis: Redis{Up: true, Answering: true}, Total: Responses{All: 6041}, MaxConnections: 100,
		CertificateEnds: now.AddDate(0, 3, 0), Documents: map[shape.Resource]Document{}, Since: map[string]time.Time{},
	}
	for i, r := range shape.Resources() {
		s.Documents[r] = Document{Held: &Held{
			FetchedAt: now.Add(-time.Minute), FreshUntil: now.Add(time.Minute), Left: 60, ServableUntil: now.Add(38*time.Hour + 37*time.Minute + time.Duration(i)*time.Hour),
		}}
	}
	return s
}

// change changes the documents of a snapshot.
func change(change func(*Document), all ...shape.Resource) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, r := range all {
			d := s.Documents[r]
			change(&d)
			s.Documents[r] = d
		}
	}
}

func TestAVerdictSaysWhoIsAffectedAndUntilWhenCopiesLast(t *testing.T) {
	const fine, last = "Visitors are not affected: no error in 6,041 responses.", " Copies last until tomorrow 17:37 ZONE."
	failing := func(d *Document) { d.Failing, d.LastFetch = true, &Fetch{Error: "x", Cause: "connection refused"} }
	stale := func(d *Document) { d.Held.Stale, d.Held.FreshUntil = true, now.Add(-time.Second) }
	gone := func(d *Document) { d.Held = nil }
	all := shape.Resources()
	for name, test := range map[string]struct {
		change   []func(*Snapshot)
		sentence string
		found    string // severities and kinds
	}{
		"nothing is wrong": {nil, fine + last, ""},
		"no request yet":   {[]func(*Snapshot){func(s *Snapshot) { s.Total = Responses{} }}, "Visitors are not affected: no request yet." + last, ""},
		"errors long ago": {[]func(*Snapshot){func(s *Snapshot) { s.Total.Errors = 1200 }},
			"Visitors are not affected now: 1,200 errors in 6,041 responses since the start." + last, ""},
		"errors just now": {[]func(*Snapshot){func(s *Snapshot) { s.Recent = Responses{2, 1} }},
			"Visitors got errors within the last minute: 1 error in 2 responses." + last, ""},
		"the CMS is down": {[]func(*Snapshot){change(failing, all...), change(stale, all...)}, fine + last, "bad cms-down"},
		"the breaker is open, and a copy was not requested":    {[]func(*Snapshot){change(stale, shape.Banners), func(s *Snapshot) { s.CMS.BreakerOpen, s.CMS.Breaker.Opened = true, now }}, fine + last, "bad cms-down"},
		"the breaker is open":                                  {[]func(*Snapshot){func(s *Snapshot) { s.CMS.BreakerOpen, s.CMS.Breaker.Opened = true, now }}, fine + last, "bad cms-down"},
		"the breaker is open, and another replica has fetched": {[]func(*Snapshot){func(s *Snapshot) { s.CMS.BreakerOpen, s.CMS.Breaker.Opened = true, now.Add(-time.Hour) }}, fine + last, ""},
		"one cannot be fetched":                                {[]func(*Snapshot){change(failing, shape.Rules)}, fine + last, "warn fetch-fails"},
		"a rejected document": {[]func(*Snapshot){change(failing, shape.Rules), change(func(d *Document) { d.LastFetch.Rejected = true }, shape.Rules)},
			fine + last, "warn rejected"},
		"a wrong token": {[]func(*Snapshot){change(failing, shape.Rules), change(func(d *Document) { d.LastFetch.Status = 403 }, shape.Rules)}, fine + last, "warn unauthorized"},
		"nothing to serve": {[]func(*Snapshot){change(failing, all...), change(gone, shape.Banners)},
			"Visitors get errors for the banners. Copies of the catalogue and rules last until tomorrow 17:37 ZONE.", "bad unservable, bad cms-down"},
		"nothing at all": {[]func(*Snapshot){change(failing, all...), change(gone, all...)},
			"Visitors get errors for the catalogue, rules and banners. No copy is cached.", "bad unservable, bad unservable, bad unservable, bad cms-down"},
		"an error a moment ago": {[]func(*Snapshot){change(func(d *Document) { d.Unanswered = true }, shape.Rules)}, "Visitors get errors for the rules." + last, "bad unservable"},
		"not fetched yet": {[]func(*Snapshot){change(gone, shape.Banners)},
			fine + " Copies of the catalogue and rules last until tomorrow 17:37 ZONE.", "neutral missing"},
		"not requested":                {[]func(*Snapshot){change(stale, shape.Banners)}, fine + last, "neutral idle"},
		"stale, although kept fresh":   {[]func(*Snapshot){change(stale, shape.Banners), change(func(d *Document) { d.Refresh = "always" }, shape.Banners)}, fine + last, "warn stale"},
		"stale, since it is held back": {[]func(*Snapshot){change(stale, shape.Banners), change(func(d *Document) { d.HeldBack = &guard.Hold{Since: now} }, shape.Banners)}, fine + last, "warn held-back"},
		"restored, and looks wrong": {[]func(*Snapshot){change(func(d *Document) {
			d.Held.Restored = &Restored{Until: now, By: "me"}
			d.Suspicions = guard.Findings{{Kind: guard.Drafts, List: "banners", Before: 2}}
		}, shape.Banners)}, fine + last, "warn content-warning, neutral restored"},
		"Redis is unreachable":    {[]func(*Snapshot){func(s *Snapshot) { s.Redis = Redis{} }}, fine + last, "bad redis-unreachable"},
		"Redis refuses writes":    {[]func(*Snapshot){func(s *Snapshot) { s.Redis.Refusing = "OOM." }}, fine + last, "warn redis-refuses-writes"},
		"purges are not received": {[]func(*Snapshot){func(s *Snapshot) { s.Redis.Answering = false }}, fine + last, "warn purges-not-received"},
		"Redis is far away":       {[]func(*Snapshot){func(s *Snapshot) { s.Redis.BoundNeeded = 120 }}, fine + last, "warn redis-slow"},
		"an endpoint is down": {[]func(*Snapshot){func(s *Snapshot) {
			s.Notify = []Endpoint{{Name: "varnish", Error: "refused", Pending: 1}, {Name: "people", Pending: 1}}
		}}, fine + last, "warn not-notified"},
		"the certificate ends":           {[]func(*Snapshot){func(s *Snapshot) { s.CertificateEnds = now.Add(time.Hour) }}, fine + last, "warn certificate-ends"},
		"the certificate has ended":      {[]func(*Snapshot){func(s *Snapshot) { s.CertificateEnds = now }}, "Visitors get errors: the TLS certificate has expired." + last, "bad certificate-expired"},
		"the limit is reached":           {[]func(*Snapshot){func(s *Snapshot) { s.Connections = 100 }}, "Visitors get errors: the limit of connections is reached." + last, "bad connections"},
		"a reload failed, and it stops":  {[]func(*Snapshot){func(s *Snapshot) { s.ReloadFailed, s.Draining = true, true }}, fine + last, "warn stopping, warn reload-failed"},
		"the worst comes first, and all": {[]func(*Snapshot){func(s *Snapshot) { s.Redis, s.ReloadFailed = Redis{}, true }, change(stale, shape.Banners)}, fine + last, "bad redis-unreachable, warn reload-failed, neutral idle"},
	} {
		s := well()
		for _, change := range test.change {
			change(&s)
		}
		v := Of(s)
		var found []string
		for _, f := range v.Findings {
			found = append(found, f.Severity+" "+f.Kind)
			if f.What == "" || f.Affects == "" || strings.ContainsAny(f.What+f.Affects+f.Do+f.Command, "{}") || f.About == nil || strings.Contains(f.Affects, "UNTIL") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if got := strings.Join(found, ", "); got != test.found {
			t.Errorf("%s: found %s, want %s", name, got, test.found)
		}
		if want := strings.ReplaceAll(test.sentence, "ZONE", now.Format("MST")); v.Sentence != want {
			t.Errorf("%s: %q, want %q", name, v.Sentence, want)
		}
		if affected := strings.HasPrefix(v.Sentence, "Visitors get"); v.Affected != affected {
			t.Errorf("%s: affected %t: %s", name, v.Affected, v.Sentence)
		}
		if ready := !s.Draining && !strings.Contains(test.found, "unservable"); v.Ready != ready {
			t.Errorf("%s: ready %t", name, v.Ready)
		}
	}
}

func TestEveryKindOfFindingIsFoundAndLeadsToASectionOfTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	source, err2 := os.ReadFile("findings.go")
	testkit.Must(t, errors.Join(err, err2))
	punctuation := regexp.MustCompile(`[^\w -]`)
	sections := map[string]bool{"": true}
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(page), -1) {
		sections[strings.ReplaceAll(strings.ToLower(punctuation.ReplaceAllString(m[1], "")), " ", "-")] = true
	}
	for kind, row := range table {
		if !sections[row.section] {
			t.Errorf("%s: docs/operations.md has no section %s", kind, row.section)
		}
		if !slices.Contains([]string{Bad, Warn, Neutral}, row.severity) || !strings.Contains(string(source), `"`+kind+`"`) {
			t.Errorf("%s is %s, and found nowhere", kind, row.severity)
		}
	}
}

func TestAFindingKeepsTheTimeSinceWhenItWasSeen(t *testing.T) {
	s := well()
	change(func(d *Document) { d.Failing = true }, shape.Rules)(&s)
	s.Since = Remember(nil, Of(s), now)
	s.ReloadFailed, s.Now = true, now.Add(time.Minute)
	s.Since = Remember(s.Since, Of(s), s.Now)
	for _, f := range Of(s).Findings {
		if want := map[string]time.Time{"fetch-fails": now, "reload-failed": s.Now}[f.Kind]; f.Since == nil || !f.Since.Equal(want) {
			t.Errorf("%s since %v, want %v", f.Kind, f.Since, want)
		}
	}
	s.ReloadFailed = false
	if since := Remember(s.Since, Of(s), s.Now); len(since) != 1 {
		t.Errorf("remembered %v", since)
	}
}

func TestAnOutageIsSeveralFailuresInARow(t *testing.T) {
	s := well()
	change(func(d *Document) { d.Failing, d.Failures, d.Cause = true, 1, "status 500" }, shape.Rules)(&s)
	change(func(d *Document) { d.Failing, d.Failures, d.Cause = true, 2, "status 503" }, shape.Banners)(&s)
	if got := Of(s).Outages; len(got) != 1 || got[shape.Banners] != "Banners cannot be fetched from the CMS (status 503)." {
		t.Errorf("%q", got)
	}
}

func TestADocumentIsIdleOnlyIfARequestWouldHaveRefreshedIt(t *testing.T) {
	for refresh, want := range map[string]string{"on-request": StateIdle, "always": StateStale} {
		if got := (&Document{Refresh: refresh, Held: &Held{Stale: true}}).State(Good); got != want {
			t.Errorf("%s: %s, want %s", refresh, got, want)
		}
	}
}
