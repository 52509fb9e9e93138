package coherence

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
)

// A replica answers with the version that it holds of a resource.
type replica interface {
	get(ctx context.Context, key string) (version int64, status cache.Status, err error)
}

// A campaign is steady reads on all replicas, and purges at random moments.
type campaign struct {
	origins  map[string]*origin
	replicas map[string]replica
	readers  int // for each replica and resource; 0 is one
	burst    int // a reader asks so often in a millisecond; 0 is five times
	// purge does to the key what its kind says, and returns the keys for which that counts as
	// purged. An error means that it was not acknowledged.
	purge func(ctx context.Context, kind, key string) (purged []string, err error)
	kinds []string        // none: it only reads
	soft  map[string]bool // the kinds that leave the old version to be served as stale
	bound time.Duration   // 0 is the usual one

	checkers map[string]*checker
	sources  map[string]*sync.Map     // by replica, Status.Detail: what answers said of where they came from
	away     map[string]*atomic.Int64 // by replica, the answers that said that Redis is away, and that are not held to anything
	acked    atomic.Int64
	seed     uint64 // of the purges: CAMPAIGN_SEED, or one of its own
	tasks    sync.WaitGroup
	stop     context.CancelFunc
}

// begin starts the readers and, for each resource, a purger. Both go on until end.
func (c *campaign) begin(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.bound = max(c.bound, bound)
	c.seed = rand.Uint64()
	if text := os.Getenv("CAMPAIGN_SEED"); text != "" {
		var err error
		c.seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Cleanup(func() { cancel(); c.tasks.Wait() })
	c.checkers, c.sources, c.away = map[string]*checker{}, map[string]*sync.Map{}, map[string]*atomic.Int64{}
	for name := range c.replicas {
		c.sources[name], c.away[name] = &sync.Map{}, &atomic.Int64{}
	}
	for key := range c.origins {
		c.checkers[key] = newChecker(c.bound)
		for name, r := range c.replicas {
			for range max(c.readers, 1) {
				o := c.checkers[key].observer(name)
				c.tasks.Go(func() { c.read(ctx, t, r, key, o) })
			}
		}
	}
	for key := range c.origins {
		if len(c.kinds) > 0 {
			c.tasks.Go(func() { c.purgeOften(ctx, key) })
		}
	}
}

// read asks in short bursts, one in a millisecond, and half of the time at the most.
func (c *campaign) read(ctx context.Context, t *testing.T, r replica, key string, o *observer) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	burst := c.burst
	if burst == 0 {
		burst = 5
	}
	for ctx.Err() == nil {
		began := o.now()
		for range burst {
			asked := o.now()
			version, status, err := r.get(ctx, key)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("%s: %s: %v", o.replica, key, err)
				return
			}
			c.sources[o.replica].Store(status.Detail, true)
			if status.Detail == cache.DetailRedisAway {
				c.away[o.replica].Add(1)
				continue
			}
			o.saw(asked, version, status)
		}
		if took := o.now() - began; took > time.Millisecond {
			pause(ctx, min(took, bound))
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
func (c *campaign) purgeOften(ctx context.Context, key string) {
	chance, most := rand.New(rand.NewPCG(c.seed, uint64(key[0]))), 6*time.Millisecond
	if c.origins[key].size > 0 {
		most = 200 * time.Millisecond // a fetch takes longer
	}
	for ctx.Err() == nil {
		kind := c.kinds[chance.IntN(len(c.kinds))]
		versions := map[string]int64{}
		for k, o := range c.origins { // before the purge, for all that it may reach
			if k == key || kind == "FLUSHDB" {
				versions[k] = o.version.Add(1)
			}
		}
		began := time.Now()
		keys, err := c.purge(ctx, kind, key)
		took := time.Since(began)
		if err == nil {
			for _, k := range keys {
				c.checkers[k].acknowledged(versions[k], kind, c.soft[kind])
			}
			c.acked.Add(1)
		}
		gap := time.Duration(chance.Int64N(int64(most)))
		if chance.IntN(10) == 0 {
			gap = c.bound + 10*time.Millisecond + time.Duration(chance.Int64N(int64(30*time.Millisecond))) + 10*took
		}
		pause(ctx, gap)
	}
}

// saw says that a replica has given an answer with that detail since the last forget.
func (c *campaign) saw(replica, detail string) bool {
	_, ok := c.sources[replica].Load(detail)
	return ok
}

func (c *campaign) forget(replica string) { c.sources[replica].Clear() }

// exempt is how many answers said that Redis is away.
func (c *campaign) exempt() (n int64) {
	for _, away := range c.away {
		n += away.Load()
	}
	return n
}

// end stops everything and gives the verdict over all resources.
func (c *campaign) end() verdict {
	c.stop()
	c.tasks.Wait()
	var sum verdict
	for _, checker := range c.checkers {
		v := checker.check()
		sum.answers += v.answers
		sum.purges += v.purges
		sum.violations = append(sum.violations, v.violations...)
		sum.porcupine = append(sum.porcupine, checker.judge()...)
		sum.delays = append(sum.delays, v.delays...)
	}
	return sum
}

// report says what was seen, and fails the test for what must not be.
func (v verdict) report(t *testing.T, c *campaign) {
	t.Helper()
	t.Logf("CAMPAIGN_SEED=%d: %d purges acknowledged, %d answers held against them, %d exempt; old answers after a purge: %v", c.seed, c.acked.Load(), v.answers, c.exempt(), v.delays)
	for _, what := range v.porcupine {
		t.Error(what)
	}
	for i, what := range v.violations {
		if i == 10 {
			t.Errorf("and %d more", len(v.violations)-i)
			break
		}
		t.Error(what)
	}
}

// mostlyHeld fails the test if too many answers said that Redis is away, where it never was: a
// machine that is held up for as long as Redis has for an answer makes some.
func (c *campaign) mostlyHeld(t *testing.T, v verdict) {
	t.Helper()
	if n := c.exempt(); n > int64(v.answers/2) {
		t.Errorf("%d answers said that Redis is away, which it never was, and only %d did not", n, v.answers)
	}
}

// eventually waits for something that another goroutine or process is about to bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
