package coherence

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
)

// Bound is how long after the acknowledgement of a purge an old answer may still be begun.
const Bound = 50 * time.Millisecond

// A checker finds answers older than a purge allows, and errors that no purge explains, for one
// resource.
//
// Versions only grow. A purge carries the version that was raised before it was sent: whatever is
// fetched after the purge has at least that version. What counts for an answer is when it was asked
// for: an answer asked for more than the bound after the acknowledgement must have the purge's
// version or a later one. Once no hard purge is under way, the version is raised again: who has
// answered with that one, or a later one, holds a copy that nobody has purged.
type checker struct {
	start time.Time
	bound time.Duration

	mu        sync.Mutex
	observers []*observer
	purges    []purged
	pending   int   // hard purges under way,
	before    int64 // what clean was before them,
	purging   bool  // and one of those that ended may have removed something
	clean     int64 // copies of this version and later ones have not been purged
	lost      []string
	purged    []*span // hard ones that may have removed something, and soft ones
	excused   int     // errors that the docs allow
}

// A span is from when a purge was sent until it was carried out, or never will be.
type span struct{ from, to time.Time }

// purged is a purge that Redis has acknowledged.
type purged struct {
	version int64
	acked   time.Duration // since the checker's start
	kind    string
	soft    bool // the old version may still be answered, if it is said to be stale
}

func newChecker(bound time.Duration) *checker {
	return &checker{start: time.Now(), bound: bound, clean: 1} // who has answered with nothing yet holds nothing
}

// acknowledged notes a purge that followed the raising of the version.
func (c *checker) acknowledged(p purged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.purges = append(c.purges, p)
}

// sent notes that a hard purge is about to be sent.
func (c *checker) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == 0 {
		c.before, c.purging = c.clean, false
	}
	c.pending++
	c.clean = math.MaxInt64
}

// over notes that it was carried out, or never will be.
func (c *checker) over(o *Origin, purged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if purged {
		c.purged, c.purging = append(c.purged, &span{time.Now(), time.Now()}), true
	}
	switch {
	case c.pending > 0:
	case c.purging:
		c.clean = o.Version.Add(1)
	default:
		c.clean = c.before
	}
}

// softens notes that a soft purge is about to be sent, and, once over, whether it was carried out.
func (c *checker) softens() (over func(purged bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &span{time.Now(), c.start.Add(math.MaxInt64)}
	c.purged = append(c.purged, p)
	return func(purged bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.to = (time.Time{}); purged {
			p.to = time.Now()
		}
	}
}

func (c *checker) isClean(version int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return version >= c.clean
}

// A loss is that a replica has errors after it had answered from a copy.
type loss struct {
	replica     string
	version     int64
	status      cache.Status // of the last answer with that version
	last, first time.Time    // of the answers, and of the errors
	away        time.Time    // since when the answers up to the last said that Redis is away; zero if that did not
}

// failed notes an error. What a replica has loaded alone goes with a purge from before its load that no
// poll of its has shown: it looks like a later one. Redis was asked before it was loaded.
func (c *checker) failed(l loss, err error) {
	alone := func(p *span) bool {
		return !l.away.IsZero() && p.to.After(l.away.Add(-pollTime)) && p.from.Before(l.first)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.version < c.clean:
	case slices.ContainsFunc(c.purged, alone):
		c.excused++
	default:
		c.lost = append(c.lost, fmt.Sprintf("%s answered version %d (%+v) until %v ago, which nobody has purged, and now (%v): %v",
			l.replica, l.version, l.status, time.Since(l.last).Round(time.Millisecond), time.Since(c.start).Round(time.Millisecond), err))
	}
}

// isKept says that an answer came from a copy that stays. A purge can come between a lease and its
// load: what is loaded then is given to who waits for it, is not said to be stored, and is not held.
func isKept(st cache.Status) bool { return st.Fwd == "" || st.Stored || st.Detail != "" }

// pollTime is longer than a replica polls Redis in vain before it takes it for unreachable.
const pollTime = 1400 * time.Millisecond

// answerTime is how long a reader that holds nothing waits at the most while the CMS works, on a
// machine that does not hold it up: a replica that another one waits for, and that took Redis for
// unreachable, asks it again after 1.25 s, and connects, looks and gives its lease back with two
// calls of 300 ms each. A reader waits for longer, but such a machine can take the rest.
const answerTime = 1250*time.Millisecond + 3*2*300*time.Millisecond

// feel adds up how long this machine holds everybody up: by how much short sleeps are late.
func feel(ctx context.Context, heldUp *atomic.Int64) {
	const tick, usual = time.Millisecond, 5 * time.Millisecond
	for began := time.Now(); poll.Sleep(ctx, tick); began = time.Now() {
		if late := time.Since(began) - tick; late > usual {
			heldUp.Add(int64(late))
		}
	}
}

// An observer notes the answers of one replica as one goroutine sees them.
type observer struct {
	c       *checker
	replica string
	count   int
	runs    []series
}

// A series is answers of one version, all of them said to be stale or none: what is kept is
// when the last of them was asked for.
type series struct {
	replica string
	version int64
	last    time.Duration
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
	r := series{o.replica, version, asked, st}
	if n := len(o.runs) - 1; n >= 0 && o.runs[n].version == version && o.runs[n].status.Stale == st.Stale {
		o.runs[n] = r
		return
	}
	o.runs = append(o.runs, r)
}

// A Verdict is what a checker found.
type Verdict struct {
	Answers    int
	Purges     int
	Excused    int      // errors that the contract allows, although a copy was held
	Violations []string // answers older than a purge allows
	Lost       []string // errors although a copy was held that nobody purged
	Delays     Delays   // of each hard purge: from the acknowledgement until an older answer was last asked for
	Histories  []History
}

// An Access is a purge or an answer, for another checker: when it took effect at the latest.
type Access struct {
	Client  int
	Purge   bool
	Version int64
	At      time.Duration
}

// A History is what was done to a document and what was read of it. In a register that only grows
// and may lag by the bound, each read sees at least the version of every purge before it.
type History []Access

// check is called when the observers and the purger have ended.
func (c *checker) check() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	var runs []series
	v := Verdict{Purges: len(c.purges), Lost: c.lost, Excused: c.excused, Histories: c.histories()}
	for _, o := range c.observers {
		v.Answers += o.count
		runs = append(runs, o.runs...)
	}
	slices.SortFunc(runs, func(a, b series) int { return cmp.Compare(a.version, b.version) })
	slices.SortFunc(c.purges, func(a, b purged) int { return cmp.Compare(a.version, b.version) })
	var stale, fresh series // of the older versions, the answers asked for last
	for _, p := range c.purges {
		for ; len(runs) > 0 && runs[0].version < p.version; runs = runs[1:] {
			last := &fresh
			if runs[0].status.Stale {
				last = &stale
			}
			if runs[0].last >= last.last {
				*last = runs[0]
			}
		}
		old := fresh
		if !p.soft && stale.last > fresh.last {
			old = stale
		}
		late := max(0, old.last-p.acked)
		if !p.soft {
			v.Delays = append(v.Delays, late)
		}
		if late > c.bound {
			v.Violations = append(v.Violations, fmt.Sprintf("%s raised the version to %d and was acknowledged at %v; %s was asked %v later and answered %d (%+v)",
				p.kind, p.version, p.acked, old.replica, late, old.version, old.status))
		}
	}
	return v
}

// histories are all answers with the hard purges, and those not said to be stale with all purges.
// Of each series it has the last answer: if that may be of its version, so may those before it.
func (c *checker) histories() []History {
	var all, fresh History
	for i, o := range c.observers {
		for _, r := range o.runs {
			a := Access{i, false, r.version, r.last - c.bound}
			if all = append(all, a); !r.status.Stale {
				fresh = append(fresh, a)
			}
		}
	}
	for _, p := range c.purges {
		a := Access{len(c.observers), true, p.version, p.acked}
		if fresh = append(fresh, a); !p.soft {
			all = append(all, a)
		}
	}
	return []History{all, fresh}
}

// Delays is a distribution.
type Delays []time.Duration

// Quantile gives the value below which the share q lies.
func (d Delays) Quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// String gives the quantiles that matter.
func (d Delays) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v (n=%d)", d.Quantile(0.5).Round(time.Microsecond), d.Quantile(0.99).Round(time.Microsecond),
		d.Quantile(1).Round(time.Microsecond), len(d))
}
