package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"vitrine/upstream/shape"
)

// A Target is what a request was for: the index of its resource among shape.Resources, or [Other].
type Target uint8

// Other is the target of a request for none of the resources.
const Other Target = 3

// targets is how many there are.
const targets = int(Other) + 1

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

// A Cache is how an answer came by its document, the label cache.
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

// codes are the statuses that the proxy answers with; any other is counted as the last.
var codes = [...]int{
	http.StatusOK, http.StatusNoContent, http.StatusMovedPermanently, http.StatusNotModified, http.StatusBadRequest, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestTimeout, http.StatusPreconditionFailed,
	http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	http.StatusHTTPVersionNotSupported, otherCode,
}

const otherCode = 0

// codeIndex finds a status among codes.
var codeIndex = func() (index [600]uint8) {
	for code := range index {
		index[code] = uint8(len(codes) - 1)
		if i := slices.Index(codes[:], code); i >= 0 {
			index[code] = uint8(i)
		}
	}
	return index
}()

func codeLabel(code int) string {
	if code == otherCode {
		return "other"
	}
	return strconv.Itoa(code)
}

// requestBounds are the upper bounds of the buckets of durations: a hit takes a few microseconds, a fetch that is
// waited for a few hundred milliseconds, and nobody waits for longer than a fetch may take.
var requestBounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// requestBuckets has one for what is beyond all bounds.
const requestBuckets = len(requestBounds) + 1

// stripes are how many sets of counters there are, a power of two: connections that are served at the same time
// rarely share one, so that no processor waits for another's cache line.
const stripes = 16

// A stripe is one set of counters.
type stripe struct {
	answers   [targets][len(codes)][caches]atomic.Uint64
	buckets   [targets][requestBuckets]atomic.Uint64
	nanos     [targets]atomic.Uint64
	collapsed [targets]atomic.Uint64
	_         [64]byte // keeps the next stripe off this one's last cache line
}

// An Answer is what is counted of one.
type Answer struct {
	Target    Target
	Cache     Cache
	Collapsed bool // the fetch that was waited for was made for another request
	Code      int  // the HTTP status
	Took      time.Duration
}

// Observe counts an answer to a request of the numbered connection. It takes no lock and allocates nothing.
func (m *Meter) Observe(connection uint64, a Answer) {
	s := &m.stripes[connection%stripes]
	code := codeIndex[0]
	if uint(a.Code) < uint(len(codeIndex)) {
		code = codeIndex[a.Code]
	}
	s.answers[a.Target][code][a.Cache].Add(1)
	i := 0
	for i < len(requestBounds) && a.Took > requestBounds[i] {
		i++
	}
	s.buckets[a.Target][i].Add(1)
	s.nanos[a.Target].Add(uint64(max(0, a.Took)))
	if a.Collapsed {
		s.collapsed[a.Target].Add(1)
	}
}

// counted are the sums over all stripes.
type counted struct {
	answers   [targets][len(codes)][caches]uint64
	buckets   [targets][requestBuckets]uint64
	nanos     [targets]uint64
	collapsed [targets]uint64
}

func (m *Meter) count() *counted {
	c := new(counted)
	for i := range m.stripes {
		s := &m.stripes[i]
		for t := range targets {
			for code := range codes {
				for cache := range caches {
					c.answers[t][code][cache] += s.answers[t][code][cache].Load()
				}
			}
			for b := range requestBuckets {
				c.buckets[t][b] += s.buckets[t][b].Load()
			}
			c.nanos[t] += s.nanos[t].Load()
			c.collapsed[t] += s.collapsed[t].Load()
		}
	}
	return c
}

// totals are what the hour is drawn from: the sums over the three resources.
type totals struct {
	requests, hits, stale, misses, failures uint64 // failures: answers with a 5xx
	buckets                                 [requestBuckets]uint64
}

func (c *counted) totals() (t totals) {
	for target := range targets {
		for i, code := range codes {
			for cache, n := range c.answers[target][i] {
				t.requests += n
				switch Cache(cache) {
				case Hit:
					t.hits += n
				case Stale:
					t.stale += n
				case Miss:
					t.misses += n
				case None, caches:
				}
				if code >= http.StatusInternalServerError {
					t.failures += n
				}
			}
		}
		for b, n := range c.buckets[target] {
			t.buckets[b] += n
		}
	}
	return t
}

// since is what was added after earlier.
func (t totals) since(earlier totals) totals {
	t.requests -= earlier.requests
	t.hits -= earlier.hits
	t.stale -= earlier.stale
	t.misses -= earlier.misses
	t.failures -= earlier.failures
	for i := range t.buckets {
		t.buckets[i] -= earlier.buckets[i]
	}
	return t
}

// percentile is the duration that the share p of the requests did not exceed, estimated within its bucket as
// Prometheus does; 0 when there were none.
func (t *totals) percentile(p float64) time.Duration {
	var all uint64
	for _, n := range t.buckets {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank, seen, lower := p*float64(all), 0.0, time.Duration(0)
	for i, n := range t.buckets {
		if i == len(requestBounds) {
			break
		}
		if seen+float64(n) >= rank && n > 0 {
			return lower + time.Duration(float64(requestBounds[i]-lower)*(rank-seen)/float64(n))
		}
		seen += float64(n)
		lower = requestBounds[i]
	}
	return lower
}
