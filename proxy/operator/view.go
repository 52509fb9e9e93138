package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/upstream/shape"
)

// frame is what every page has around its content.
type frame struct {
	Title   string
	Nav     []link
	Version string
	Started string
	Zone    string
}

// A link is somewhere to go, or where one is.
type link struct {
	Name, Href string
	Count      int
	Here       bool
}

// overview is the page at /.
type overview struct {
	frame
	At                         string
	Verdict                    []told
	Cards                      []card
	Tiles                      []fact
	Window                     string // how far back the charts go
	Charts                     []chart
	Events                     []happened
	Replicas                   []neighbour
	Commands                   []Command
	Redis, Prefix, CMS, Public string
	PublicURL                  string // Public where it can be followed
}

// told is a sentence and how good it is: good, warn or bad.
type told struct{ Level, Text string }

// A card shows a resource.
type card struct {
	Name, Title, Route, State, Age, Left, BarWords, Note string
	Used                                                 string // of the bar, in hundredths
	Facts                                                []fact
}

// A fact is a name, its value, and what to add in small print.
type fact struct{ Name, Value, More, Class string }

// happened is a row of the events.
type happened struct{ Level, At, Text, Code, Times string }

// neighbour is a row of the replicas.
type neighbour struct {
	Name, Holds, Level, Seen, Running, Version string
	Self                                       bool
}

// levels of what is told.
const (
	good = "good"
	warn = "warn"
	bad  = "bad"
)

func overviewOf(st *Status, points []metrics.Point) (overview, error) {
	o := overview{
		At:      clock(st.Now, st.Now),
		Verdict: verdictOf(st),
		Tiles:   tilesOf(st),
		Redis:   st.Redis.Address, Prefix: st.Redis.Prefix, CMS: st.Upstream.URL, Public: st.Public,
		Commands: st.Commands,
	}
	for _, r := range shape.Resources() {
		o.Cards = append(o.Cards, cardOf(r, st))
	}
	for _, e := range st.Events {
		o.Events = append(o.Events, happenedOf(e, st.Now))
	}
	for _, r := range st.Replicas.List {
		o.Replicas = append(o.Replicas, neighbourOf(r, st.Now))
	}
	if strings.HasPrefix(st.Public, "http://") || strings.HasPrefix(st.Public, "https://") {
		o.PublicURL = st.Public
	}
	back, _ := windowOf(points, st.Now)
	o.Window = "The last hour"
	if back < metrics.Window {
		o.Window = fmt.Sprintf("The last %d minutes", int(back.Minutes()))
	}
	var err error
	o.Charts, err = chartsOf(points, st)
	return o, err
}

// verdictOf says in a sentence or a few how things are, the worst first. It holds no number that changes by itself:
// a screen reader reads it out whenever it changes.
func verdictOf(st *Status) []told {
	var all []told
	say := func(level, text string) { all = append(all, told{level, text}) }
	var missing, stale, failing []string
	for _, r := range shape.Resources() {
		told := st.Resources[r]
		switch {
		case told.Held == nil:
			missing = append(missing, string(r))
		case told.Held.Stale:
			stale = append(stale, string(r))
		}
		if told.Failing {
			failing = append(failing, string(r))
		}
	}
	switch {
	case st.Draining:
		say(warn, "This process is stopping.")
	case st.Upstream.BreakerOpen:
		say(bad, "The CMS keeps failing and is left in peace for a while.")
	case len(failing) == len(shape.Resources()):
		say(bad, "The CMS cannot be fetched from.")
	case len(failing) > 0:
		say(warn, capital(both(failing))+" cannot be fetched from the CMS.")
	}
	switch {
	case len(missing) > 0 && len(failing) > 0:
		say(bad, capital(both(missing))+": nothing can be served.")
	case len(missing) > 0:
		say(warn, capital(both(missing))+": nothing is held; the next request fetches it.")
	}
	if len(stale) > 0 {
		say(warn, capital(both(stale))+": the copy being served is stale.")
	}
	switch {
	case !st.Redis.Up:
		say(bad, "Redis is away: this replica serves on its own, and hears of no purge.")
	case st.Redis.Level == metrics.Degraded:
		say(warn, "Purges are not being heard: every answer is checked against Redis.")
	}
	if st.Replicas.Known && !st.Replicas.Agree {
		say(warn, "The replicas do not hold the same.")
	}
	if len(all) == 0 {
		say(good, "All is well: everything is fresh, and the CMS and Redis answer.")
	}
	slices.SortStableFunc(all, func(a, b told) int { return strings.Compare(a.Level, b.Level) }) // bad, good, warn
	return all
}

// both joins names: a, b and c.
func both(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func cardOf(r shape.Resource, st *Status) card {
	told := st.Resources[r]
	c := card{Name: string(r), Title: capital(string(r)), Route: told.Route, State: told.State}
	if c.State == "" {
		c.State = cache.StateMissing
	}
	add := func(name, value, more, class string) { c.Facts = append(c.Facts, fact{name, value, more, class}) }
	if h := told.Held; h != nil {
		age, left := seconds(h.Age), seconds(h.Left)
		c.Age = span(age) + " old"
		used := 100.0
		switch {
		case h.Left > 0:
			c.Left = "fresh for " + span(left)
			used = 100 * h.Age / max(h.Age+h.Left, 1e-9)
		case h.FreshUntil.Before(h.FetchedAt): // no fetch leaves such a time
			c.Left = "declared stale by an operator"
		default:
			c.Left = "stale for " + span(left)
		}
		c.Used = fmt.Sprintf("%.1f", min(100, max(0, used)))
		c.BarWords = c.Age + ", " + c.Left
		if h.Stale {
			c.Note = "May be served for another " + span(h.ServableUntil.Sub(st.Now)) + "."
		}
		add("Items", plural(h.Items, "item", "items"), "", "")
		add("Size", size(h.Bytes), plural(h.Bytes, "byte", "bytes"), "")
		add("Version", tag(h.ETag), versionsOf(told.VersionsSeen), "")
		add("Last change", ago(h.ChangedAt, st.Now), clock(h.ChangedAt, st.Now), "")
	} else {
		c.Age, c.Left, c.Used, c.BarWords = "nothing held", "fetched on the next request", "0", "Nothing is held"
		if told.Failing {
			c.Left = "cannot be served"
		}
	}
	if f := told.LastFetch; f != nil {
		how, class := milliseconds(f.Milliseconds), ""
		if f.Error != "" {
			class = bad
			how = "failed: " + f.Error
		} else if f.Status > 0 {
			how += fmt.Sprintf(", status %d", f.Status)
		}
		if f.Attempts > 1 {
			how += fmt.Sprintf(", %d attempts", f.Attempts)
		}
		if f.Repairs > 0 {
			how += ", " + plural(f.Repairs, "repair", "repairs")
		}
		add("Last fetch", ago(f.At, st.Now), how, class)
	} else {
		add("Last fetch", "none by this replica", "", "")
	}
	if refusal := told.LastRefusal; refusal != nil {
		add("Last refusal", refusal.Reason, ago(refusal.At, st.Now), warn)
	} else {
		add("Last refusal", "none", "", "")
	}
	switch {
	case told.Fetching:
		c.Note = strings.TrimSpace("Being fetched now. " + c.Note)
	case told.Failing:
		c.Note = strings.TrimSpace("The CMS fails; it is tried again. " + c.Note)
	}
	return c
}

func versionsOf(seen int) string {
	if seen < 2 {
		return ""
	}
	return fmt.Sprintf("%d seen", seen)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func tilesOf(st *Status) []fact {
	t := st.Traffic
	tiles := []fact{{Name: "Requests", Value: compact(math.Round(t.RequestsPerSecond*10) / 10), More: "a second"}}
	ratio := fact{Name: "Hit ratio", Value: "–"}
	if t.HitRatio != nil {
		ratio.Value = percent(*t.HitRatio)
	}
	tiles = append(tiles, ratio)
	for _, p := range []struct {
		name  string
		value *float64
	}{{"Half within", t.P50}, {"95% within", t.P95}, {"99% within", t.P99}} {
		tile := fact{Name: p.name, Value: "–"}
		if p.value != nil {
			value, unit, _ := strings.Cut(milliseconds(*p.value), " ")
			tile.Value, tile.More = value, unit
		}
		tiles = append(tiles, tile)
	}
	return append(tiles, fact{Name: "Errors since the start", Value: compact(float64(t.Failures)), More: "of " + compact(float64(t.Requests))})
}

func happenedOf(e metrics.Event, now time.Time) happened {
	h := happened{At: clock(e.At, now), Level: "neutral"}
	if e.Count > 1 {
		h.Times = fmt.Sprintf("%d times", e.Count)
	}
	name := capital(e.Resource)
	switch e.Kind {
	case metrics.KindPurge:
		h.Level, h.Text = "purged", name+" purged."
	case metrics.KindSoftPurge:
		h.Level, h.Text = "purged", name+" declared stale (a soft purge)."
	case metrics.KindRefusal:
		h.Level, h.Text, h.Code = warn, name+" refused, the last good copy stays:", e.Detail
	case metrics.KindIncoherent:
		h.Level, h.Text = bad, name+": a sample found memory to differ from Redis."
	case metrics.KindCMS:
		h.Level, h.Text = changed(e.Detail, "The CMS answers again.", "Part of the CMS cannot be fetched from.", "The CMS cannot be fetched from.")
	case metrics.KindRedis:
		h.Level, h.Text = changed(e.Detail, "Redis is back, and purges are heard.", "Purges are not being heard.", "Redis is away.")
	}
	return h
}

// changed picks the sentence for a new level.
func changed(level, well, degraded, down string) (string, string) {
	switch level {
	case metrics.Good.String():
		return good, well
	case metrics.Degraded.String():
		return warn, degraded
	}
	return bad, down
}

func neighbourOf(r Replica, now time.Time) neighbour {
	n := neighbour{
		Name: r.Name, Self: r.Self, Version: r.Version, Seen: span(seconds(r.Age)) + " ago", Running: span(now.Sub(r.Started)),
		Holds: "the same", Level: good,
	}
	switch {
	case r.Self && r.Agree:
		n.Holds = plural(len(r.ETags), "resource", "resources")
	case !r.Agree:
		n.Holds, n.Level = "something else", warn
	case len(r.ETags) == 0:
		n.Holds, n.Level = "nothing yet", "neutral"
	}
	return n
}
