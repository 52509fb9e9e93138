package metrics

import (
	"slices"
	"time"
)

// An Overview is what a person is shown of the numbers.
type Overview struct {
	Now       time.Time
	CMS       Level
	Redis     Level
	Traffic   Traffic
	Points    []Point // the last hour, oldest first
	Events    []Event // of the last hour, newest first
	Resources [Other]Numbers
}

// Traffic is what was answered in the last minute or so, and since the start.
type Traffic struct {
	// Seconds is what the rates and percentiles are over.
	Seconds float64 `json:"seconds"`
	// RequestsPerSecond counts all requests.
	RequestsPerSecond float64 `json:"requests_per_second"`
	// HitRatio is the share of documents that were given without waiting for a fetch, null when none was asked for.
	HitRatio *float64 `json:"hit_ratio"`
	// P50, P95 and P99 are milliseconds, null when there were no requests.
	P50 *float64 `json:"p50_ms"`
	P95 *float64 `json:"p95_ms"`
	P99 *float64 `json:"p99_ms"`
	// Requests and Failures, answers with a 5xx, are since the start.
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
}

// A Point is what happened in the step before At.
type Point struct {
	At time.Time
	Traffic
	CMS, Redis Level // the worst
}

// Numbers are what was counted of one resource since the start.
type Numbers struct {
	Fetches      uint64
	FetchErrors  uint64
	Purges       uint64
	Incoherent   uint64
	Refusal      *Refusal // the last, nil when there was none
	VersionsSeen int
	Versions     []Version // the last few, newest first
}

// recently is how many points back the present is measured from.
const recently = 6

// Overview tells the present and the last hour.
func (m *Meter) Overview() Overview {
	now, state, sums := time.Now(), m.look(), m.count().totals()
	o := Overview{Now: now}
	for t := range Other {
		n := &o.Resources[t]
		for outcome := range fetchOutcomes {
			count := m.fetches[t][outcome].Load()
			n.Fetches += count
			if outcome >= FetchUnreachable {
				n.FetchErrors += count
			}
		}
		n.Purges = m.purges[t][0].Load() + m.purges[t][1].Load()
		n.Incoherent = m.incoherent[t].Load()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	state.Tracking = state.Tracking || m.deaf < deafLooks
	o.CMS, o.Redis = state.levels()
	for t := range Other {
		n := &o.Resources[t]
		n.Refusal = m.refusals[t]
		n.VersionsSeen, n.Versions = m.versions[t].count, slices.Clone(m.versions[t].last)
	}
	for i := len(m.events) - 1; i >= 0 && now.Sub(m.events[i].At) < Window; i-- {
		o.Events = append(o.Events, m.events[i])
	}
	for i := 1; i < len(m.past); i++ {
		a, b := &m.past[i-1], &m.past[i]
		o.Points = append(o.Points, Point{At: b.at, Traffic: traffic(b.sums.since(a.sums), b.at.Sub(a.at)), CMS: b.cms, Redis: b.redis})
	}
	if n := len(m.past); n > 0 {
		last, from := &m.past[n-1], &m.past[max(0, n-recently)]
		o.Traffic = traffic(sums.since(from.sums), now.Sub(from.at))
		// What is under way is a point of its own once it is long enough for a rate.
		if now.Sub(last.at) >= Step/5 {
			o.Points = append(o.Points, Point{
				At: now, Traffic: traffic(sums.since(last.sums), now.Sub(last.at)),
				CMS: max(m.worst.cms, o.CMS), Redis: max(m.worst.redis, o.Redis),
			})
		}
	}
	o.Traffic.Requests, o.Traffic.Failures = sums.requests, sums.failures
	return o
}

// traffic makes rates of what was counted over a time.
func traffic(t totals, over time.Duration) Traffic {
	out := Traffic{Seconds: over.Seconds(), Requests: t.requests, Failures: t.failures}
	if over > 0 {
		out.RequestsPerSecond = float64(t.requests) / over.Seconds()
	}
	if documents := t.hits + t.stale + t.misses; documents > 0 {
		ratio := float64(t.hits+t.stale) / float64(documents)
		out.HitRatio = &ratio
	}
	if t.requests > 0 {
		p := func(share float64) *float64 {
			ms := float64(t.percentile(share).Nanoseconds()) / 1e6
			return &ms
		}
		out.P50, out.P95, out.P99 = p(0.50), p(0.95), p(0.99)
	}
	return out
}
