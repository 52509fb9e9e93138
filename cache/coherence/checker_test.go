package coherence

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"vitrine/cache"
)

// bound is how long after the acknowledgement of a purge an old answer may still be begun.
const bound = 50 * time.Millisecond

// A checker finds answers older than a purge allows, for one resource.
//
// Versions only grow. A purge carries the version that was raised before it was sent: whatever is
// fetched after the purge has at least that version. What counts for an answer is when it was asked
// for: an answer asked for more than the bound after the acknowledgement must have the purge's
// version or a later one.
type checker struct {
	start time.Time
	bound time.Duration

	mu        sync.Mutex
	observers []*observer
	purges    []purged
}

// purged is a purge that Redis has acknowledged.
type purged struct {
	version int64
	acked   time.Duration // since the checker's start
	kind    string
	soft    bool // the old version may still be answered, if it is said to be stale
}

func newChecker(bound time.Duration) *checker { return &checker{start: time.Now(), bound: bound} }

// acknowledged notes that a purge which followed the raising of the version has just been
// acknowledged.
func (c *checker) acknowledged(version int64, kind string, soft bool) {
	c.acknowledgedAt(purged{version, time.Since(c.start), kind, soft})
}

func (c *checker) acknowledgedAt(p purged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.purges = append(c.purges, p)
}

// An observer notes the answers of one replica as one goroutine sees them.
type observer struct {
	c       *checker
	replica string
	count   int
	all     []run // every answer
	fresh   []run // those not said to be stale
}

// A run is a series of answers of one version: what is kept is when the last of them was asked for.
type run struct {
	replica string
	version int64
	last    time.Duration
	answers int
	status  cache.Status // of the last
}

func (c *checker) observer(replica string) *observer {
	o := &observer{c: c, replica: replica}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(c.observers, o)
	return o
}

// now is taken before an answer is asked for.
func (o *observer) now() time.Duration { return time.Since(o.c.start) }

// saw notes an answer that was asked for at the time asked.
func (o *observer) saw(asked time.Duration, version int64, st cache.Status) {
	o.count++
	o.all = extend(o.all, o.replica, asked, version, st)
	if !st.Stale {
		o.fresh = extend(o.fresh, o.replica, asked, version, st)
	}
}

func extend(runs []run, replica string, asked time.Duration, version int64, st cache.Status) []run {
	if n := len(runs) - 1; n >= 0 && runs[n].version == version {
		runs[n].last, runs[n].status = asked, st
		runs[n].answers++
		return runs
	}
	return append(runs, run{replica, version, asked, 1, st})
}

// A verdict is what a checker found.
type verdict struct {
	answers    int
	purges     int
	violations []string
	porcupine  []string // what the other checker finds wrong: see porcupine_test.go
	delays     delays   // of each hard purge: from the acknowledgement until an older answer was last asked for
}

// check is called when the observers and the purger have ended.
func (c *checker) check() verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all, fresh []run
	v := verdict{purges: len(c.purges)}
	for _, o := range c.observers {
		v.answers += o.count
		all, fresh = append(all, o.all...), append(fresh, o.fresh...)
	}
	lastAny, lastFresh := lastBefore(all), lastBefore(fresh)
	for _, p := range c.purges {
		last := lastAny
		if p.soft {
			last = lastFresh
		}
		old, found := last(p.version)
		late := time.Duration(0)
		if found {
			late = max(0, old.last-p.acked)
		}
		if !p.soft {
			v.delays = append(v.delays, late)
		}
		if late > c.bound {
			v.violations = append(v.violations, fmt.Sprintf("%s raised the version to %d and was acknowledged at %v; %s was asked %v later and answered %d (%+v)",
				p.kind, p.version, p.acked, old.replica, late, old.version, old.status))
		}
	}
	return v
}

// lastBefore tells, for a version, which answer of an older one was asked for last.
func lastBefore(runs []run) func(version int64) (run, bool) {
	slices.SortFunc(runs, func(a, b run) int { return int(a.version - b.version) })
	latest := make([]int, len(runs)) // of the runs up to each, the one that ended last
	for i := range runs {
		latest[i] = i
		if i > 0 && runs[latest[i-1]].last > runs[i].last {
			latest[i] = latest[i-1]
		}
	}
	return func(version int64) (run, bool) {
		n := sort.Search(len(runs), func(i int) bool { return runs[i].version >= version })
		if n == 0 {
			return run{}, false
		}
		return runs[latest[n-1]], true
	}
}

// delays is a distribution.
type delays []time.Duration

// quantile gives the value below which the share q lies.
func (d delays) quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (d delays) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v (n=%d)", d.quantile(0.5).Round(time.Microsecond), d.quantile(0.99).Round(time.Microsecond),
		d.quantile(1).Round(time.Microsecond), len(d))
}
