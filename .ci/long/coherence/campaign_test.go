package coherence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cmd/testkit"
)

// A Campaign is steady reads on all replicas, and purges at random moments.
type Campaign struct {
	Origins  map[string]*Origin
	Replicas map[string]Replica
	Seed     uint64 // of the purges; 0: any
	Readers  int    // for each replica and resource; 0 is one
	Burst    int    // a reader asks so often in a millisecond; 0 is five times
	Purge    Purger
	Kinds    []string // none: it only reads
	Bound    time.Duration
	Pauses   time.Duration // between two purges, at the most; 0 is 6 ms, in which most fetches end

	// Quiet has nobody purge. Unheld says that purges do not count, because Redis forgets some;
	// Forgets that stale answers marked as lost are exempt: a purge of a Redis that has come back
	// without the document, made before a replica has looked, looks to that one like a loss. Apart
	// has nobody flush, because a replica that is cut off takes that for a loss.
	Quiet, Unheld, Forgets, Apart atomic.Bool

	Acked    atomic.Int64
	worked   atomic.Int64     // since when the CMS does, Unix nanoseconds
	heldUp   atomic.Int64     // for how long this machine has held the campaign up, nanoseconds
	seats    map[string]*seat // by replica
	checkers map[string]*checker
	purging  sync.RWMutex // held for reading by each purge
	tasks    sync.WaitGroup
	stop     context.CancelFunc
}

// A seat is what is known of a replica, whichever process answers for it.
type seat struct {
	replaced atomic.Int64 // how often it was
	sources  sync.Map     // by Status.Detail: what answers said of where they came from
	away     atomic.Int64 // the answers that said that Redis is away, and that are not held to anything
}

// Begin starts the readers and, for each resource, a purger. Both go on until End.
func (c *Campaign) Begin(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.Bound = max(c.Bound, Bound)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	t.Cleanup(func() { cancel(); c.tasks.Wait() })
	c.checkers, c.seats = map[string]*checker{}, map[string]*seat{}
	for name := range c.Replicas {
		c.seats[name] = &seat{}
	}
	for key := range c.Origins {
		c.checkers[key] = newChecker(c.Bound)
		for name, r := range c.Replicas {
			for range max(c.Readers, 1) {
				o := c.checkers[key].observer(name)
				c.tasks.Go(func() { c.read(ctx, t, r, key, o) })
			}
		}
	}
	c.tasks.Go(func() { feel(ctx, &c.heldUp) })
	for key := range c.Origins {
		if len(c.Kinds) > 0 {
			c.tasks.Go(func() { c.purgeOften(ctx, key) })
		}
	}
}

// read asks in short bursts, one in a millisecond, and half of the time at the most.
func (c *Campaign) read(ctx context.Context, t testing.TB, r Replica, key string, o *observer) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	s, l := c.seats[o.replica], loss{replica: o.replica}
	replaced := int64(0) // how often it had been when it answered
	var since, heldUp time.Duration
	vain := false // it has waited in vain since then
	for ctx.Err() == nil {
		began := o.now()
		for range cmp.Or(c.Burst, 5) {
			asked := o.now()
			if n := s.replaced.Load(); n != replaced {
				l.version, replaced = 0, n
			}
			if !vain {
				since, heldUp = asked, time.Duration(c.heldUp.Load())
			}
			vain = false
			failing, forgets := c.failing(), c.Forgets.Load()
			version, status, err := r.Get(ctx, key)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && s.replaced.Load() != replaced:
				continue
			case err != nil && (failing || c.failing()):
				if l.first.Before(l.last) {
					l.first = time.Now()
				}
				o.c.failed(l, err)
				poll.Sleep(ctx, time.Millisecond)
				continue
			case err != nil:
				waited, held := o.now()-since, time.Duration(c.heldUp.Load())-heldUp
				if vain = errors.Is(err, cache.ErrWait) && waited-held < answerTime; vain {
					continue
				}
				t.Errorf("%s: %s: after %v, of which it was held up for %v: %v", o.replica, key, waited, held, err)
				return
			}
			if l.last = time.Now(); version >= l.version && isKept(status) {
				l.version, l.status = version, status
			}
			s.sources.Store(status.Detail, true)
			if status.Detail == cache.DetailRedisAway {
				if l.away.IsZero() {
					l.away = l.last
				}
				s.away.Add(1)
				continue
			}
			l.away = time.Time{}
			if status.Detail != cache.DetailRedisLost || !status.Stale || !forgets && !c.Forgets.Load() {
				o.saw(asked, version, status)
			}
		}
		if took := o.now() - began; took > time.Millisecond {
			poll.Sleep(ctx, min(took, Bound))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// purgeOften purges at random moments: most follow each other closely, so that they hit fetches
// under way, and after one in ten there is quiet for longer than the bound, so that what stays
// wrong is seen to be wrong, and for as long as a fetch takes on this machine.
func (c *Campaign) purgeOften(ctx context.Context, key string) {
	chance, most := rand.New(rand.NewPCG(c.Seed, uint64(key[0]))), cmp.Or(c.Pauses, 6*time.Millisecond)
	for ctx.Err() == nil {
		kind := c.Kinds[chance.IntN(len(c.Kinds))]
		took := c.purgeOnce(ctx, kind, key)
		gap := time.Duration(chance.Int64N(int64(most)))
		if chance.IntN(10) == 0 {
			gap = c.Bound + 10*time.Millisecond + time.Duration(chance.Int64N(int64(30*time.Millisecond))) + 10*took
		}
		poll.Sleep(ctx, gap)
		for c.Quiet.Load() && ctx.Err() == nil {
			poll.Sleep(ctx, time.Millisecond)
		}
	}
}

// purgeOnce purges, and says how long it took.
func (c *Campaign) purgeOnce(ctx context.Context, kind, key string) time.Duration {
	c.purging.RLock()
	defer c.purging.RUnlock()
	if kind == "FLUSHDB" && c.Apart.Load() {
		kind = "DEL"
	}
	versions, over, unheld := map[string]int64{}, map[string]func(purged bool){}, c.Unheld.Load()
	for k, o := range c.Origins { // before the purge, for all that it may reach
		if k == key || kind == "FLUSHDB" {
			if checker := c.checkers[k]; Soft[kind] {
				over[k] = checker.softens()
			} else {
				checker.sent()
				over[k] = func(purged bool) { checker.over(o, purged) }
			}
			versions[k] = o.Version.Add(1)
		}
	}
	began := time.Now()
	keys, err := c.Purge(ctx, kind, key)
	took := time.Since(began)
	if err == nil {
		for _, k := range keys {
			if !unheld && !c.Unheld.Load() {
				checker := c.checkers[k]
				checker.acknowledged(purged{versions[k], time.Since(checker.start), kind, Soft[kind]})
			}
		}
		c.Acked.Add(1)
	}
	for _, end := range over {
		end(!isHarmless(err))
	}
	return took
}

// ErrNothing is what a Purger returns if there was nothing to remove.
var ErrNothing = errors.New("nothing was removed")

// isHarmless says that a purge was not carried out, and never will be.
func isHarmless(err error) bool {
	var dial *net.OpError
	var reply redis.Error
	return errors.Is(err, ErrNothing) || errors.As(err, &reply) && !errors.Is(err, redis.Nil) || errors.As(err, &dial) && dial.Op == "dial"
}

// Hush ends the purging, and returns when none is under way.
func (c *Campaign) Hush() {
	c.Quiet.Store(true)
	c.purging.Lock()
	defer c.purging.Unlock()
}

// PartSoon has nobody flush from now on, and returns when no purge is under way.
func (c *Campaign) PartSoon() {
	c.Apart.Store(true)
	c.purging.Lock()
	defer c.purging.Unlock()
}

// PurgeAll removes each document once.
func (c *Campaign) PurgeAll(ctx context.Context) {
	for key := range c.Origins {
		c.purgeOnce(ctx, "DEL", key)
	}
}

// Fail has the CMS fail, or work again.
func (c *Campaign) Fail(down bool) {
	c.worked.Store(time.Now().UnixNano())
	if down {
		c.worked.Store(math.MaxInt64)
	}
	for _, o := range c.Origins {
		o.Down.Store(down)
	}
}

// failing says that the CMS does, or did a moment ago.
func (c *Campaign) failing() bool {
	const moment = 2 * time.Second
	return time.Now().UnixNano() < c.worked.Load() || time.Since(time.Unix(0, c.worked.Load())) < moment
}

// Replaced says that another process answers for the replica, which holds nothing of the old one's.
func (c *Campaign) Replaced(replica string) { c.seats[replica].replaced.Add(1) }

// Untrusted has copies count as purged until the end: something is done to Redis that may be one.
func (c *Campaign) Untrusted() (end func()) {
	for _, checker := range c.checkers {
		checker.sent()
	}
	return func() {
		for key, checker := range c.checkers {
			checker.over(c.Origins[key], true)
		}
	}
}

// Saw says that a replica has given an answer with that detail since the last Forget.
func (c *Campaign) Saw(replica, detail string) bool {
	_, ok := c.seats[replica].sources.Load(detail)
	return ok
}

// Forget forgets what its answers said.
func (c *Campaign) Forget(replica string) { c.seats[replica].sources.Clear() }

// Away is how many answers of a replica said that Redis is away.
func (c *Campaign) Away(replica string) int64 { return c.seats[replica].away.Load() }

// Exempt is how many of all said so.
func (c *Campaign) Exempt() (n int64) {
	for name := range c.seats {
		n += c.Away(name)
	}
	return n
}

// End stops everything and gives the verdict over all resources.
func (c *Campaign) End() Verdict {
	c.stop()
	c.tasks.Wait()
	var sum Verdict
	for key, checker := range c.checkers {
		v := checker.check()
		sum.Answers += v.Answers
		sum.Purges += v.Purges
		sum.Excused += v.Excused
		sum.Violations = append(sum.Violations, v.Violations...)
		for _, what := range v.Lost {
			sum.Lost = append(sum.Lost, key+": "+what)
		}
		sum.Delays = append(sum.Delays, v.Delays...)
		sum.Histories = append(sum.Histories, v.Histories...)
	}
	return sum
}

// Report says what was seen, and fails the test for what must not be.
func (c *Campaign) Report(t testing.TB, v Verdict) {
	t.Helper()
	t.Logf("seed %d: %d purges acknowledged, %d answers held against them, %d exempt, %d errors excused; old answers after a purge: %v",
		c.Seed, c.Acked.Load(), v.Answers, c.Exempt(), v.Excused, v.Delays)
	for _, wrong := range [][]string{v.Violations, v.Lost} {
		for i, what := range wrong {
			if i == 5 {
				t.Errorf("and %d more", len(wrong)-i)
				break
			}
			t.Error(what)
		}
	}
}

// MostlyHeld fails the test if too many answers said that Redis is away, where it never was: a
// machine that is held up for as long as Redis has for an answer makes some.
func (c *Campaign) MostlyHeld(t testing.TB, v Verdict) {
	t.Helper()
	if n := c.Exempt(); n > int64(v.Answers/2) {
		t.Errorf("%d answers said that Redis is away, which it never was, and only %d did not", n, v.Answers)
	}
}

// Settle has every replica hold a copy of each document that nobody has purged. Nobody purges then.
func (c *Campaign) Settle(t testing.TB) {
	t.Helper()
	c.Hush()
	unsettled := ""
	defer func() {
		if t.Failed() {
			t.Log(unsettled)
		}
	}()
	testkit.Eventually(t, "all hold copies that nobody has purged", func() bool {
		for range 300 {
			if unsettled = c.unsettled(t.Context()); unsettled == "" {
				return true
			}
			poll.Sleep(t.Context(), time.Millisecond)
		}
		for key := range c.Origins {
			c.purgeOnce(t.Context(), "DEL", key)
		}
		return false
	})
}

// unsettled says who holds no such copy; "" if all do.
func (c *Campaign) unsettled(ctx context.Context) string {
	for name, r := range c.Replicas {
		for key, checker := range c.checkers {
			// What Redis refused is none of its: a purge of a key that is missing does not reach it.
			if version, status, err := r.Get(ctx, key); err != nil || !checker.isClean(version) && status.Detail != cache.DetailRedisRefused {
				return fmt.Sprintf("%s: %s: version %d, which may have been purged (%+v, %v)", name, key, version, status, err)
			}
		}
	}
	return ""
}

// HasLost says that a replica holds a copy that Redis has lost, or has an error.
func (c *Campaign) HasLost(ctx context.Context) bool {
	for _, r := range c.Replicas {
		for key := range c.Origins {
			if _, status, err := r.Get(ctx, key); err != nil || status.Detail == cache.DetailRedisLost {
				return true
			}
		}
	}
	return false
}
