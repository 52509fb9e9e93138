package metrics

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"vitrine/upstream/shape"
)

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

var cacheNames = [caches]string{"none", "hit", "stale", "miss"}

// String is the value of the label.
func (c Cache) String() string { return cacheNames[c] }

// An Answer is one answer of the public server.
type Answer struct {
	Cache     Cache
	Collapsed bool // it waited for a fetch made for another request
	Code      int  // the HTTP status
	Took      time.Duration
}

// namespace begins the name of every metric.
const namespace = "vitrine"

// requestBounds are the upper bounds of the duration buckets in seconds: a hit takes microseconds,
// a fetch that is waited for some hundred milliseconds, and nobody waits for longer than a fetch
// may take.
var requestBounds = [...]float64{
	5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10,
}

// requests counts answers.
type requests struct {
	*prometheus.Registry // of these metrics alone, for totals
	of                   map[shape.Resource]*Answers
}

// Answers counts the answers of one resource. The counters of a hit are looked up once.
type Answers struct {
	all             *prometheus.CounterVec // of this resource
	ok, notModified [caches]prometheus.Counter
	took            prometheus.Observer
	collapsed       prometheus.Counter
}

func newRequests() *requests {
	r := &requests{Registry: prometheus.NewRegistry(), of: map[shape.Resource]*Answers{}}
	factory := promauto.With(r.Registry)
	all := factory.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "requests_total", Help: "Responses by resource, status code and cache result.",
	}, []string{"resource", "code", "cache"})
	took := factory.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "request_duration_seconds", Help: "Time taken to produce a response.", Buckets: requestBounds[:],
	}, []string{"resource"})
	collapsed := factory.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "collapsed_total", Help: "Responses that waited for a fetch started by another request.",
	}, []string{"resource"})
	for _, resource := range append(shape.Resources(), "") {
		name := cmp.Or(string(resource), "other")
		of := &Answers{
			all:  all.MustCurryWith(prometheus.Labels{"resource": name}),
			took: took.WithLabelValues(name), collapsed: collapsed.WithLabelValues(name),
		}
		if r.of[resource] = of; resource == "" {
			continue // it has no document
		}
		for _, c := range []Cache{Hit, Stale, Miss} {
			of.ok[c] = of.all.WithLabelValues("200", c.String())
			of.notModified[c] = of.all.WithLabelValues("304", c.String())
		}
	}
	return r
}

// Of returns the counters of a resource, or with "" those of requests for none.
func (r *requests) Of(resource shape.Resource) *Answers { return r.of[resource] }

// Observe counts an answer. For a hit it takes no lock and allocates nothing.
func (of *Answers) Observe(a Answer) {
	var counter prometheus.Counter
	switch a.Code {
	case http.StatusOK:
		counter = of.ok[a.Cache]
	case http.StatusNotModified:
		counter = of.notModified[a.Cache]
	}
	if counter == nil {
		code := "other"
		if a.Code >= 100 && a.Code < 600 {
			code = strconv.Itoa(a.Code)
		}
		counter = of.all.WithLabelValues(code, a.Cache.String())
	}
	counter.Inc()
	of.took.Observe(max(0, a.Took).Seconds())
	if a.Collapsed {
		of.collapsed.Inc()
	}
}

// notHTTP1 is the answer to a client that speaks another version of HTTP, such as a scanner.
const notHTTP1 = "505"

// totals are the sums of all counters, for rates over a time.
type totals struct {
	requests, failures uint64 // failures: answers with a 5xx, but for those to another version of HTTP
	caches             [caches]uint64
	within             [len(requestBounds)]uint64 // requests that took no longer than each of these
}

func (r *requests) totals() (sum totals) {
	families, _ := r.Gather() // its metrics are consistent
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for i, bucket := range m.GetHistogram().GetBucket() {
				sum.within[i] += bucket.GetCumulativeCount()
			}
			sum.requests += m.GetHistogram().GetSampleCount() // of the same moment as its buckets
			n := uint64(m.GetCounter().GetValue())
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() == "cache":
					sum.caches[slices.Index(cacheNames[:], l.GetValue())] += n
				case l.GetName() == "code" && l.GetValue()[0] == '5' && l.GetValue() != notHTTP1:
					sum.failures += n
				}
			}
		}
	}
	return sum
}

// since is the part of t that was added after earlier.
func (t totals) since(earlier totals) totals {
	t.requests -= earlier.requests
	t.failures -= earlier.failures
	for i, n := range earlier.caches {
		t.caches[i] -= n
	}
	for i, n := range earlier.within {
		t.within[i] -= n
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
		bound, n := 1e3*requestBounds[i], float64(n)
		if n >= rank && n > below {
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, n
	}
	return lower
}
