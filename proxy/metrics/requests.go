package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"

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

func counterVec(factory promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return factory.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// codes bounds the statuses counted apart. A status outside 100 to 599 has index 0, the label
// other.
const codes = 600

// requestBounds are the upper bounds of the duration buckets, in seconds: a hit takes microseconds,
// a fetch that is waited for some hundred milliseconds, and nobody waits for longer than a fetch
// may take.
var requestBounds = []float64{
	5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, .1, .25, .5, 1, 2.5, 5, 10,
}

// requests counts answers. A handle is resolved when its series is first counted, and then kept, so
// that counting neither takes a lock nor allocates.
type requests struct {
	vector    *prometheus.CounterVec
	handles   [targets][caches][codes]atomic.Pointer[prometheus.Counter]
	durations [targets]prometheus.Observer
	collapsed [targets]prometheus.Counter
}

func newRequests(factory promauto.Factory) *requests {
	r := &requests{vector: counterVec(factory, "requests_total", "Responses by resource, status code and cache result.", "resource", "code", "cache")}
	durations := factory.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "request_duration_seconds", Help: "Time taken to produce a response.", Buckets: requestBounds,
	}, []string{"resource"})
	collapsed := counterVec(factory, "collapsed_total", "Responses that waited for a fetch started by another request.", "resource")
	for t := range targets {
		r.durations[t] = durations.WithLabelValues(t.String())
		if t == Other { // no fetch is made for it
			continue
		}
		r.collapsed[t] = collapsed.WithLabelValues(t.String())
		for _, c := range []Cache{Hit, Stale, Miss} { // a ratio needs these from the start
			r.resolve(t, c, 200)
		}
	}
	return r
}

// resolve looks up the handle of a series. Two that do so at once get the same.
func (r *requests) resolve(t Target, c Cache, code int) prometheus.Counter {
	label := "other"
	if code > 0 {
		label = strconv.Itoa(code)
	}
	counter := r.vector.WithLabelValues(t.String(), label, c.String())
	r.handles[t][c][code].Store(&counter)
	return counter
}

func (r *requests) observe(a Answer) {
	code := a.Code
	if code < 100 || code >= codes {
		code = 0
	}
	if handle := r.handles[a.Target][a.Cache][code].Load(); handle != nil {
		(*handle).Inc()
	} else {
		r.resolve(a.Target, a.Cache, code).Inc()
	}
	r.durations[a.Target].Observe(max(0, a.Took).Seconds())
	if a.Collapsed && a.Target != Other {
		r.collapsed[a.Target].Inc()
	}
}

// totals are the sums of all counters, for rates over a time.
type totals struct {
	requests, failures float64 // failures: answers with a 5xx
	caches             [caches]float64
	within             []uint64 // requests that took no longer than each of requestBounds
}

func (r *requests) totals() totals {
	sum := totals{within: make([]uint64, len(requestBounds))}
	for t := range targets {
		for c := range caches {
			for code := range codes {
				handle := r.handles[t][c][code].Load()
				if handle == nil {
					continue
				}
				n := value(*handle)
				sum.requests += n
				sum.caches[c] += n
				if code >= 500 {
					sum.failures += n
				}
			}
		}
		for i, bucket := range read(r.durations[t].(prometheus.Metric)).GetHistogram().GetBucket() { //nolint:errcheck // every histogram is a metric
			sum.within[i] += bucket.GetCumulativeCount()
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
	t.within = slices.Clone(t.within)
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
	rank, lower, below := share*t.requests, 0.0, 0.0
	for i, n := range t.within {
		if n := float64(n); n >= rank && n > below {
			return 1e3 * (lower + (requestBounds[i]-lower)*(rank-below)/(n-below))
		}
		lower, below = requestBounds[i], float64(n)
	}
	return 1e3 * lower
}

// read returns the present state of a metric.
func read(m prometheus.Metric) *dto.Metric {
	out := new(dto.Metric)
	if err := m.Write(out); err != nil {
		panic(err) // a metric of this package, whose labels were checked when it was made
	}
	return out
}

// value returns the present value of a counter.
func value(c prometheus.Counter) float64 { return read(c).GetCounter().GetValue() }
