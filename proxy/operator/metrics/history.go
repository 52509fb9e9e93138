package metrics

import (
	"slices"
	"sync"
	"time"

	"vitrine/proxy/verdict"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

const (
	// lookEvery is the interval at which the state is sampled.
	lookEvery = time.Second
	// Step is the distance between two points of the history.
	Step = 10 * time.Second
	// Window is the length of the history.
	Window = time.Hour
	// deafLooks is the number of samples in a row without an answered poll after which it counts as lost.
	deafLooks = 5
	// recently is the number of points that the present rates are measured over.
	recently = 6

	maxEvents = 200
)

// The kinds of events.
const (
	KindPurge      = "purge"
	KindSoftPurge  = "soft-purge"
	KindRefusal    = "refusal"
	KindHeld       = "held"       // a document is held back; Detail is the reason
	KindReleased   = "released"   // it no longer is; Detail is why, and the reason of before
	KindSuspicious = "suspicious" // the cached copy has content warnings; Detail is one reason
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

// A Past is the last hour, as far as it is not a part of a snapshot.
type Past struct {
	Traffic Traffic `json:"traffic"`
	Events  []Event `json:"events"`  // newest first
	History []Point `json:"history"` // oldest first
}

// A Point is a step of the last hour.
type Point struct {
	At time.Time `json:"at"` // its end
	Traffic
	CMS   verdict.Level `json:"cms"` // the worst of the step, as is the next
	Redis verdict.Level `json:"redis"`
}

// Traffic is the load of a time.
type Traffic struct {
	Seconds           float64  `json:"seconds"` // that the rates and percentiles are over
	RequestsPerSecond float64  `json:"requests_per_second"`
	HitRatio          *float64 `json:"hit_ratio"` // the share of documents served without waiting for a fetch; null for no document
	P50               *float64 `json:"p50_ms"`    // null when there were no requests, as are the next two
	P95               *float64 `json:"p95_ms"`
	P99               *float64 `json:"p99_ms"`
	Requests          uint64   `json:"requests"` // of the present: since the start, as are the next
	Failures          uint64   `json:"failures"` // answers with a 5xx
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
	cms, redis verdict.Level
}

// worse is the worse of two levels.
func worse(a, b verdict.Level) verdict.Level {
	all := []verdict.Level{verdict.Unknown, verdict.Good, verdict.Degraded, verdict.Down}
	return all[max(0, slices.Index(all, a), slices.Index(all, b))]
}

// history is the memory of the last hour.
type history struct {
	mu      sync.Mutex           // guards what follows
	points  []point              // oldest first
	worst   point                // its levels are the worst since the last of points
	events  []Event              // oldest first
	deaf    int                  // samples in a row in which purges were not received
	since   map[string]time.Time // of the findings of the last sample
	numbers map[shape.Resource]*verdict.Numbers

	// The last sample; empty before the first.
	judged    verdict.Verdict
	documents map[shape.Resource]verdict.Document
}

// remember takes one sample, notes the changes, keeps a point when one is due, and returns the verdict.
func (h *history) remember(now time.Time, state verdict.Snapshot, sums func() totals) verdict.Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A process that is held up does not hear Redis for that moment, which is common on a busy
	// machine.
	if h.deaf++; state.Redis.Answering {
		h.deaf = 0
	}
	state.Now, state.Redis.Answering = now, h.deaf < deafLooks
	before, v := h.judged, verdict.Of(state)
	h.since = verdict.Remember(h.since, v, now)
	if before.CMS != "" && before.CMS != v.CMS {
		h.note(Event{At: now, Kind: KindCMS, Detail: string(v.CMS)})
	}
	if before.Redis != "" && before.Redis != v.Redis {
		h.note(Event{At: now, Kind: KindRedis, Detail: string(v.Redis)})
	}
	for _, r := range shape.Resources() {
		d := state.Documents[r]
		for _, s := range d.Suspicions {
			if !slices.Contains(h.documents[r].Suspicions, s) {
				h.note(Event{At: now, Kind: KindSuspicious, Resource: string(r), Detail: s.Warning()})
			}
		}
	}
	h.judged, h.documents = v, state.Documents
	h.worst.cms, h.worst.redis = worse(h.worst.cms, v.CMS), worse(h.worst.redis, v.Redis)
	if n := len(h.points); n > 0 && now.Sub(h.points[n-1].at) < Step {
		return v
	}
	h.points = append(h.points, point{at: now, sums: sums(), cms: h.worst.cms, redis: h.worst.redis})
	h.worst = point{}
	h.points = slices.DeleteFunc(h.points, func(p point) bool { return now.Sub(p.at) > Window+Step })
	return v
}

// note keeps an event. A refusal that repeats another of its resource within the hour is counted with
// it. The caller holds mu.
func (h *history) note(e Event) {
	e.Count = 1
	if i := slices.IndexFunc(h.events, func(last Event) bool {
		return e.Kind == KindRefusal && last.Kind == e.Kind && last.Resource == e.Resource && last.Detail == e.Detail && e.At.Sub(last.At) < Window
	}); i >= 0 {
		e.Count += h.events[i].Count
		h.events = slices.Delete(h.events, i, i+1)
	}
	h.events = append(h.events, e)
	h.events = h.events[max(0, len(h.events)-maxEvents):]
}

// past is the last hour. The caller holds mu.
func (h *history) past(now time.Time, sums totals) Past {
	p := Past{Events: []Event{}, History: []Point{}} // a list in JSON is never null
	for _, e := range slices.Backward(h.events) {
		if now.Sub(e.At) < Window {
			p.Events = append(p.Events, e)
		}
	}
	for i := 1; i < len(h.points); i++ {
		a, b := &h.points[i-1], &h.points[i]
		p.History = append(p.History, Point{b.at, traffic(b.sums.since(a.sums), b.at.Sub(a.at)), b.cms, b.redis})
	}
	if from := h.minute(); from != nil {
		p.Traffic = traffic(sums.since(from.sums), now.Sub(from.at))
	}
	p.Traffic.Requests, p.Traffic.Failures = sums.requests, sums.failures
	return p
}

// minute is the point at which the last minute began; nil before the first.
func (h *history) minute() *point {
	if len(h.points) == 0 {
		return nil
	}
	return &h.points[max(0, len(h.points)-recently)]
}

// complete adds what is remembered to a snapshot. The caller holds mu.
func (h *history) complete(now time.Time, s *verdict.Snapshot, sums totals) {
	s.Now, s.Since, s.Redis.Answering = now, h.since, s.Redis.Answering || h.deaf < deafLooks
	s.Total = verdict.Responses{All: sums.requests, Errors: sums.failures}
	if from := h.minute(); from != nil {
		recent := sums.since(from.sums)
		s.Recent = verdict.Responses{All: recent.requests, Errors: recent.failures}
	}
	documents := make(map[shape.Resource]verdict.Document, shape.Count)
	for _, r := range shape.Resources() {
		d := s.Documents[r]
		d.Numbers, d.Suspicions = *h.numbers[r], append(guard.Findings{}, d.Suspicions...) // a list in JSON is never null
		documents[r] = d
	}
	s.Documents = documents
}
