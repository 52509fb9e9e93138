package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vitrine/upstream/shape"
)

// A Target is the subject of a request: the index of its resource among shape.Resources, or
// [Other].
type Target uint8

// Other is the target of a request for none of the resources.
const Other Target = 3

// targets is the number of targets.
const targets = Other + 1

// TargetOf returns the target of a resource.
func TargetOf(r shape.Resource) Target {
	if i := slices.Index(shape.Resources(), r); i >= 0 {
		return Target(i) //nolint:gosec // below 3
	}
	return Other
}

// String is the value of the label resource.
func (t Target) String() string {
	if t < Other {
		return string(shape.Resources()[t])
	}
	return "other"
}

// A Cache is the cache result of an answer, the label cache.
type Cache uint8

// The values of the label cache.
const (
	None  Cache = iota // no document was needed
	Hit                // fresh, without waiting for a fetch
	Stale              // stale, without waiting for a fetch, or because one failed
	Miss               // after waiting for a fetch, successful or not
	caches
)

// String is the value of the label.
func (c Cache) String() string { return [caches]string{"none", "hit", "stale", "miss"}[c] }

// An Answer is one answer of the public server.
type Answer struct {
	Target    Target
	Cache     Cache
	Collapsed bool // it waited for a fetch made for another request
	Code      int  // the HTTP status
	Took      time.Duration
}

// namespace begins the name of every metric.
const namespace = "vitrine"

// codes bounds the statuses counted apart. A status outside 100 to 599 has index 0, the label
// other.
const codes = 600

// requestBounds are the upper bounds of the duration buckets: a hit takes microseconds, a fetch that
// is waited for some hundred milliseconds, and nobody waits for longer than a fetch may take.
var requestBounds = [...]time.Duration{
	5e3, 10e3, 25e3, 50e3, 100e3, 250e3, 500e3, 1e6, 2.5e6, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 2.5e9, 5e9, 10e9,
}

var (
	requestsDesc = prometheus.NewDesc(namespace+"_requests_total", "Responses by resource, status code and cache result.",
		[]string{"resource", "code", "cache"}, nil)
	durationDesc = prometheus.NewDesc(namespace+"_request_duration_seconds", "Time taken to produce a response.", []string{"resource"}, nil)
	collapseDesc = prometheus.NewDesc(namespace+"_collapsed_total", "Responses that waited for a fetch started by another request.",
		[]string{"resource"}, nil)
)

// requests counts answers: three atomic additions each, about half of what handles of client_golang
// cost.
type requests [targets]struct {
	answers   [caches][codes]atomic.Uint64
	within    [len(requestBounds) + 1]atomic.Uint64 // by bucket; the last is beyond all bounds
	took      atomic.Int64                          // nanoseconds
	collapsed atomic.Uint64
}

func (r *requests) observe(a Answer) {
	t, code, took := &r[a.Target], a.Code, max(0, a.Took)
	if code < 100 || code >= codes {
		code = 0
	}
	i := 0
	for i < len(requestBounds) && took > requestBounds[i] {
		i++
	}
	t.answers[a.Cache][code].Add(1)
	t.within[i].Add(1)
	t.took.Add(int64(took))
	if a.Collapsed {
		t.collapsed.Add(1)
	}
}

// Describe implements prometheus.Collector.
func (r *requests) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- durationDesc
	ch <- collapseDesc
}

// Collect implements prometheus.Collector.
func (r *requests) Collect(ch chan<- prometheus.Metric) {
	for i := range r {
		t, target := &r[i], Target(i)
		for c := range caches {
			for code := range codes {
				n, label := t.answers[c][code].Load(), "other"
				if code > 0 {
					label = strconv.Itoa(code)
				}
				if n > 0 || target != Other && c != None && code == http.StatusOK { // a ratio needs these from the start
					ch <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), target.String(), label, c.String())
				}
			}
		}
		count, buckets := uint64(0), make(map[float64]uint64, len(requestBounds))
		for j, bound := range requestBounds {
			count += t.within[j].Load()
			buckets[bound.Seconds()] = count
		}
		count += t.within[len(requestBounds)].Load()
		ch <- prometheus.MustNewConstHistogram(durationDesc, count, time.Duration(t.took.Load()).Seconds(), buckets, target.String())
		if target != Other { // no fetch is made for it
			ch <- prometheus.MustNewConstMetric(collapseDesc, prometheus.CounterValue, float64(t.collapsed.Load()), target.String())
		}
	}
}

// totals are the sums of all counters, for rates over a time.
type totals struct {
	requests, failures uint64 // failures: answers with a 5xx
	caches             [caches]uint64
	within             [len(requestBounds)]uint64 // requests that took no longer than each of requestBounds
}

func (r *requests) totals() (sum totals) {
	for i := range r {
		t := &r[i]
		for c := range caches {
			for code := range codes {
				n := t.answers[c][code].Load()
				sum.requests += n
				sum.caches[c] += n
				if code >= 500 {
					sum.failures += n
				}
			}
		}
		count := uint64(0)
		for j := range sum.within {
			count += t.within[j].Load()
			sum.within[j] += count
		}
	}
	return sum
}

// since is the part of t that was added after earlier.
func (t totals) since(earlier totals) totals {
	t.requests -= earlier.requests
	t.failures -= earlier.failures
	for c := range t.caches {
		t.caches[c] -= earlier.caches[c]
	}
	for i := range t.within {
		t.within[i] -= earlier.within[i]
	}
	return t
}

// percentile is the time in milliseconds that a share of the requests did not exceed, estimated
// within its bucket as Prometheus does, at most the last bound. It is 0 if there were none.
func (t totals) percentile(share float64) float64 {
	if t.requests == 0 {
		return 0
	}
	rank, lower, below := share*float64(t.requests), 0.0, 0.0
	for i, n := range t.within {
		bound, n := 1e3*requestBounds[i].Seconds(), float64(n)
		if n >= rank && n > below {
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, n
	}
	return lower
}
