package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// overview is the data of the page at /.
type overview struct {
	Status
	Verdict   []sentence
	Cards     []card
	Charts    []*chart
	PublicURL string // Public where it can be followed
}

// A sentence has a level: good, warn, bad, purged or neutral.
type sentence struct{ Level, Text string }

// The levels of sentences.
const (
	good    = "good"
	warn    = "warn"
	bad     = "bad"
	neutral = "neutral"
)

// levels are those of the verdict in its order.
var levels = []string{bad, warn, neutral, good}

// A card shows a resource.
type card struct {
	Name shape.Resource
	Resource
	Age, Left, Note string
	Used            string // of the bar, in hundredths
}

func overviewOf(st Status) overview {
	o := overview{Status: st, Verdict: verdictOf(&st), Charts: chartsOf(&st)}
	for _, r := range shape.Resources() {
		o.Cards = append(o.Cards, cardOf(r, &st))
	}
	if strings.HasPrefix(st.Public, "http://") || strings.HasPrefix(st.Public, "https://") {
		o.PublicURL = st.Public
	}
	return o
}

// verdictOf sums the state up, the worst first. It holds no number that changes by itself: a screen
// reader reads it out whenever it changes.
func verdictOf(st *Status) []sentence {
	var all []sentence
	say := func(level, text string) { all = append(all, sentence{level, text}) }
	var missing, idle, stale, failing []string
	for _, r := range shape.Resources() {
		resource := st.Resources[r]
		switch resource.State {
		case StateMissing:
			missing = append(missing, string(r))
		case StateIdle:
			idle = append(idle, string(r))
		case StateStale:
			if resource.HeldBack != nil { // which says it
				continue
			}
			stale = append(stale, string(r))
		}
		if resource.Failing {
			failing = append(failing, string(r))
		}
	}
	switch {
	case st.Draining:
		say(warn, "This process is stopping.")
	case st.Upstream.BreakerOpen && st.Upstream.Level == metrics.Down:
		say(bad, "The CMS keeps failing; the circuit breaker is open.")
	case len(failing) == len(shape.Resources()):
		say(bad, "The CMS cannot be fetched from.")
	case len(failing) > 0:
		say(warn, capital(english.WordSeries(failing, "and"))+" cannot be fetched from the CMS.")
	}
	switch {
	case len(missing) > 0 && len(failing) > 0:
		say(bad, capital(english.WordSeries(missing, "and"))+": nothing can be served.")
	case len(missing) > 0:
		say(neutral, capital(english.WordSeries(missing, "and"))+": nothing is held; the next request fetches it.")
	}
	for _, r := range shape.Resources() {
		resource := st.Resources[r]
		if h := resource.Held; h != nil && h.Pinned != nil {
			say(neutral, fmt.Sprintf("%s: an earlier version is pinned by %s until %s; nothing is fetched. To end that: vitrine restore %s latest", capital(r), h.Pinned.By, clock(h.Pinned.Until, st.Now), r))
		}
		if h := resource.HeldBack; h != nil {
			say(warn, capital(string(r))+": the CMS's document is held back ("+h.Reason+"). To accept it: "+h.Command)
		}
		for _, s := range resource.Suspicions {
			say(warn, "Look at the "+string(r)+": "+s.String()+".")
		}
	}
	if len(stale) > 0 {
		say(warn, capital(english.WordSeries(stale, "and"))+": the copy being served is stale.")
	}
	switch {
	case !st.Redis.Up:
		say(bad, "Redis is unreachable: this replica serves on its own and receives no purges.")
	case st.Redis.Refusing != "":
		say(warn, "Redis refuses writes: "+st.Redis.Refusing+" New documents stay in the memory of each replica.")
	case st.Redis.BoundNeeded > 0:
		say(warn, fmt.Sprintf("Redis is %.0f ms away, and every answer waits for it: a redis.purge_bound of %.0fms would do.", st.Redis.RoundTrip, st.Redis.BoundNeeded))
	case st.Redis.Level == metrics.Degraded:
		say(warn, "Purges are not received: every answer is checked against Redis.")
	}
	if st.Replicas.Known && !st.Replicas.Agree {
		say(warn, "The replicas do not hold the same content.")
	}
	var untold []string
	for _, t := range st.Notify {
		if t.Error != "" {
			untold = append(untold, t.Name)
		}
	}
	if len(untold) > 0 {
		say(warn, "Cannot be told of changes: "+english.WordSeries(untold, "and")+".")
	}
	switch {
	case len(idle) == 0 && len(all) == 0:
		say(good, "All is well: everything is fresh, and the CMS and Redis answer.")
	case len(idle) > 0 && len(all) == 0:
		say(good, "All is well. Not requested lately: "+english.WordSeries(idle, "and")+"; the next request refreshes the copy.")
	case len(idle) > 0:
		say(neutral, capital(english.WordSeries(idle, "and"))+": not requested lately; the next request refreshes the copy.")
	}
	slices.SortStableFunc(all, func(a, b sentence) int { return slices.Index(levels, a.Level) - slices.Index(levels, b.Level) })
	return all
}

func cardOf(r shape.Resource, st *Status) card {
	c := card{Name: r, Resource: st.Resources[r], Age: "nothing held", Left: "fetched on the next request", Used: "0"}
	h := c.Held
	switch {
	case h == nil && c.Failing:
		c.Left = "cannot be served"
	case h == nil:
	case h.Pinned != nil:
		c.Left, c.Note = "pinned until "+clock(h.Pinned.Until, st.Now), "Restored by "+h.Pinned.By+"; nothing is fetched until then."
	case h.Left > 0:
		c.Left = "fresh for " + span(seconds(h.Left))
	case c.State == StateIdle:
		c.Left = "refreshed on the next request"
	case softlyPurged(h):
		c.Left = "marked as stale by an operator"
	default:
		c.Left = "stale for " + span(seconds(h.Left))
	}
	if h != nil {
		c.Age, c.Used = span(seconds(h.Age))+" old", "100"
		if h.Left > 0 {
			c.Used = fmt.Sprintf("%.1f", max(0, 100*h.Age/(h.Age+h.Left)))
		}
		switch {
		case c.State == StateIdle:
			c.Used = "0"
		case h.Stale:
			c.Note = "May be served for another " + span(h.ServableUntil.Sub(st.Now)) + "."
		}
	}
	if c.HeldBack != nil {
		c.Note = strings.TrimSpace("A newer document is held back: " + c.HeldBack.Reason + ". " + c.Note)
	}
	switch {
	case c.Fetching:
		c.Note = strings.TrimSpace("Being fetched now. " + c.Note)
	case c.Failing:
		c.Note = strings.TrimSpace("The last fetch failed; a later request tries again. " + c.Note)
	}
	return c
}

// Summary is the result of a fetch in a few words.
func (f *Fetch) Summary() string {
	text := milliseconds(f.Milliseconds)
	switch {
	case f.Error != "":
		text = "failed: " + f.Error
	case f.Status > 0:
		text += fmt.Sprintf(", status %d", f.Status)
	}
	if f.Attempts > 1 {
		text += fmt.Sprintf(", %d attempts", f.Attempts)
	}
	if f.Repairs > 0 {
		text += ", " + english.Plural(f.Repairs, "repair", "repairs")
	}
	return text
}

// descriptions are the sentences for events, by kind and for a change of level by its new level.
// They follow the name of the resource, if there is one.
var descriptions = map[string]sentence{
	metrics.KindPurge:               {"purged", " purged."},
	metrics.KindSoftPurge:           {"purged", " marked as stale (soft purge)."},
	metrics.KindRefusal:             {warn, " refused, the last good copy stays:"},
	metrics.KindChange:              {neutral, " changed:"},
	metrics.KindHeld:                {warn, ": a document is held back:"},
	metrics.KindPassed:              {good, ": no document is held back any more."},
	metrics.KindSuspicious:          {warn, ": something looks wrong:"},
	metrics.KindIncoherent:          {bad, ": memory differed from Redis in a background sample."},
	metrics.KindCMS + " good":       {good, "The CMS answers again."},
	metrics.KindCMS + " degraded":   {warn, "Some resources cannot be fetched from the CMS."},
	metrics.KindCMS + " down":       {bad, "The CMS cannot be fetched from."},
	metrics.KindRedis + " good":     {good, "Redis is back, and purges are received."},
	metrics.KindRedis + " degraded": {warn, "Purges are not received, or writes are refused."},
	metrics.KindRedis + " down":     {bad, "Redis is unreachable."},
}

func describe(e metrics.Event) sentence {
	s := descriptions[e.Kind]
	if e.Resource == "" {
		s = descriptions[e.Kind+" "+e.Detail]
	}
	s.Text = capital(e.Resource) + s.Text
	return s
}

// holds compares a replica with this one.
func holds(r Replica) sentence {
	switch {
	case !r.Agree:
		return sentence{warn, "something else"}
	case r.Self:
		return sentence{good, english.Plural(len(r.ETags), "resource", "resources")}
	case len(r.ETags) == 0:
		return sentence{"neutral", "nothing yet"}
	}
	return sentence{good, "the same"}
}
