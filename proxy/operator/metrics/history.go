package metrics

import (
	"slices"
	"sync"
	"time"

	"vitrine/upstream/shape"
)

const (
	// lookEvery is the interval at which the state is sampled.
	lookEvery = time.Second
	// Step is the distance between two points of the history.
	Step = 10 * time.Second
	// Window is the length of the history.
	Window = time.Hour
	// deafLooks is the number of samples in a row without tracking after which it counts as lost.
	deafLooks = 5
	// recently is the number of points that the present rates are measured over.
	recently = 6

	maxEvents   = 200
	maxVersions = 5
)

// The kinds of events.
const (
	KindPurge      = "purge"
	KindSoftPurge  = "soft-purge"
	KindRefusal    = "refusal"
	KindIncoherent = "incoherent"
	KindHeld       = "held"       // a document is held back; Detail is the reason
	KindPassed     = "passed"     // none is held back any more
	KindSuspicious = "suspicious" // the document held is; Detail is one reason
	KindChange     = "change"     // of a document; Detail is what changed
	KindCMS        = "cms"        // its level changed; Detail is the new one
	KindRedis      = "redis"      // its level changed; Detail is the new one
)

// An Event is an entry of the operator's list.
type Event struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Resource string    `json:"resource,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Count    int       `json:"count"` // how often in a row; At is the last time
}

// A Refusal is a document of the CMS that was not in shape.
type Refusal struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"` // the JSON path, what was wanted and what was found
	Count  int       `json:"count"`  // since the start
}

// A Version is content that was held at some time.
type Version struct {
	ETag  string    `json:"etag"`
	Bytes int       `json:"bytes"`
	Since time.Time `json:"since"` // when it was first seen here
}

// Traffic is the load of the last minute or so, and since the start.
type Traffic struct {
	// Seconds is the time that the rates and percentiles are over.
	Seconds float64 `json:"seconds"`
	// RequestsPerSecond counts all requests.
	RequestsPerSecond float64 `json:"requests_per_second"`
	// HitRatio is the share of documents served without waiting for a fetch, null when none was
	// asked for.
	HitRatio *float64 `json:"hit_ratio"`
	// P50, P95 and P99 are milliseconds, null when there were no requests.
	P50 *float64 `json:"p50_ms"`
	P95 *float64 `json:"p95_ms"`
	P99 *float64 `json:"p99_ms"`
	// Requests and Failures, answers with a 5xx, are since the start.
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
}

// History is the last hour: each list has a value for the step before each time in At, null where
// nothing was measured.
type History struct {
	At                []time.Time `json:"at"`
	RequestsPerSecond []*float64  `json:"requests_per_second"`
	HitRatio          []*float64  `json:"hit_ratio"`
	P50               []*float64  `json:"p50_ms"`
	P95               []*float64  `json:"p95_ms"`
	P99               []*float64  `json:"p99_ms"`
	Failures          []uint64    `json:"failures"`
	CMS               []Level     `json:"cms"`   // the worst of the step
	Redis             []Level     `json:"redis"` // the worst of the step
}

func (h *History) add(at time.Time, t Traffic, cms, redis Level) {
	h.At, h.RequestsPerSecond, h.HitRatio = append(h.At, at), append(h.RequestsPerSecond, &t.RequestsPerSecond), append(h.HitRatio, t.HitRatio)
	h.P50, h.P95, h.P99 = append(h.P50, t.P50), append(h.P95, t.P95), append(h.P99, t.P99)
	h.Failures, h.CMS, h.Redis = append(h.Failures, t.Failures), append(h.CMS, cms), append(h.Redis, redis)
}

// traffic makes rates of the counts over a time.
func traffic(t totals, over time.Duration) Traffic {
	out := Traffic{Seconds: over.Seconds(), Requests: t.requests, Failures: t.failures}
	if over > 0 {
		out.RequestsPerSecond = float64(t.requests) / over.Seconds()
	}
	if served := t.caches[Hit] + t.caches[Stale]; served+t.caches[Miss] > 0 {
		ratio := float64(served) / float64(served+t.caches[Miss])
		out.HitRatio = &ratio
	}
	if t.requests > 0 {
		p50, p95, p99 := t.percentile(0.50), t.percentile(0.95), t.percentile(0.99)
		out.P50, out.P95, out.P99 = &p50, &p95, &p99
	}
	return out
}

// point is one point of the past: the sums so far, and the worst levels since the point before.
type point struct {
	at         time.Time
	sums       totals
	cms, redis Level
}

// history is the memory of the last hour.
type history struct {
	mu      sync.Mutex // guards what follows
	points  []point    // oldest first
	worst   point      // its levels are the worst since the last of points
	events  []Event    // oldest first
	deaf    int        // samples in a row without tracking
	numbers map[shape.Resource]*Numbers

	// The last sample; empty before the first.
	cms, redis Level
	documents  map[shape.Resource]Document
}

// remember takes one sample, notes the changes, and keeps a point when one is due.
func (h *history) remember(now time.Time, state State, sums func() totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A process that is held up does not hear Redis for that moment, which is common on a busy
	// machine.
	if h.deaf++; state.Tracking {
		h.deaf = 0
	}
	state.Tracking = h.deaf < deafLooks
	cms, redis := state.levels()
	if h.cms != "" && h.cms != cms {
		h.note(Event{At: now, Kind: KindCMS, Detail: string(cms)})
	}
	if h.redis != "" && h.redis != redis {
		h.note(Event{At: now, Kind: KindRedis, Detail: string(redis)})
	}
	before := h.documents
	h.cms, h.redis, h.documents = cms, redis, state.Documents
	for _, r := range shape.Resources() {
		d, n := state.Documents[r], h.numbers[r]
		h.noteDocument(now, string(r), before[r], d)
		if held, last := d.Held, n.Versions; held != nil && (len(last) == 0 || last[0].ETag != held.ETag) {
			n.VersionsSeen++
			n.Versions = append([]Version{{ETag: held.ETag, Bytes: held.Bytes, Since: now}}, last[:min(len(last), maxVersions-1)]...)
		}
	}
	h.worst.cms, h.worst.redis = worse(h.worst.cms, cms), worse(h.worst.redis, redis)
	if n := len(h.points); n > 0 && now.Sub(h.points[n-1].at) < Step {
		return
	}
	h.points = append(h.points, point{at: now, sums: sums(), cms: h.worst.cms, redis: h.worst.redis})
	h.worst = point{}
	h.points = slices.DeleteFunc(h.points, func(p point) bool { return now.Sub(p.at) > Window+Step })
}

// noteDocument notes what is held back or suspicious since the sample before.
func (h *history) noteDocument(at time.Time, resource string, was, d Document) {
	switch now, before := d.HeldBack, was.HeldBack; {
	case now != nil && (before == nil || before.Reason != now.Reason):
		h.note(Event{At: at, Kind: KindHeld, Resource: resource, Detail: now.Reason})
	case now == nil && before != nil:
		h.note(Event{At: at, Kind: KindPassed, Resource: resource})
	}
	for _, s := range d.Suspicions {
		if !slices.Contains(was.Suspicions, s) {
			h.note(Event{At: at, Kind: KindSuspicious, Resource: resource, Detail: s.String()})
		}
	}
}

// note keeps an event. A refusal that repeats the last one of its resource within the hour is
// counted with it. The caller holds mu.
func (h *history) note(e Event) {
	e.Count = 1
	for i, last := range slices.Backward(h.events) {
		if last.Kind != e.Kind || last.Resource != e.Resource {
			continue
		}
		if e.Kind == KindRefusal && last.Detail == e.Detail && e.At.Sub(last.At) < Window {
			e.Count += last.Count
			h.events = slices.Delete(h.events, i, i+1)
		}
		break
	}
	h.events = append(h.events, e)
	h.events = h.events[max(0, len(h.events)-maxEvents):]
}

// Overview is the part of the numbers that a person is shown.
type Overview struct {
	CMS       Level
	Redis     Level
	Traffic   Traffic
	History   History
	Events    []Event // of the last hour, newest first
	Resources map[shape.Resource]Numbers
}

// Numbers are the counts of one resource since the start.
type Numbers struct {
	LastRefusal  *Refusal  `json:"last_refusal"` // nil when there was none
	VersionsSeen int       `json:"versions_seen"`
	Versions     []Version `json:"versions"` // the last few, newest first
	Fetches      uint64    `json:"fetches"`
	FetchErrors  uint64    `json:"fetch_errors"`
	Purges       uint64    `json:"purges"`
	Incoherent   uint64    `json:"incoherent_samples"`
}

// overview is the last hour and the present.
func (h *history) overview(now time.Time, state State, sums totals) Overview {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := Overview{Resources: map[shape.Resource]Numbers{}, Events: []Event{}, History: History{ // a list in JSON is never null
		At: []time.Time{}, RequestsPerSecond: []*float64{}, HitRatio: []*float64{}, P50: []*float64{}, P95: []*float64{}, P99: []*float64{},
		Failures: []uint64{}, CMS: []Level{}, Redis: []Level{},
	}}
	state.Tracking = state.Tracking || h.deaf < deafLooks
	o.CMS, o.Redis = state.levels()
	for _, e := range slices.Backward(h.events) {
		if now.Sub(e.At) < Window {
			o.Events = append(o.Events, e)
		}
	}
	for r, n := range h.numbers {
		o.Resources[r] = *n
	}
	for i := 1; i < len(h.points); i++ {
		a, b := &h.points[i-1], &h.points[i]
		o.History.add(b.at, traffic(b.sums.since(a.sums), b.at.Sub(a.at)), b.cms, b.redis)
	}
	if n := len(h.points); n > 0 {
		last, from := &h.points[n-1], &h.points[max(0, n-recently)]
		o.Traffic = traffic(sums.since(from.sums), now.Sub(from.at))
		if now.Sub(last.at) >= Step/5 { // the step under way is a point once it is long enough for a rate
			o.History.add(now, traffic(sums.since(last.sums), now.Sub(last.at)), worse(h.worst.cms, o.CMS), worse(h.worst.redis, o.Redis))
		}
	}
	o.Traffic.Requests, o.Traffic.Failures = sums.requests, sums.failures
	return o
}
