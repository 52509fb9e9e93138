package coherence

import (
	"context"
	"errors"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

func TestCheckerHoldsAnswersToTheBound(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		purge purged
		asked time.Duration
		old   bool // said to be stale
		found bool
	}{
		"asked for before the Bound":              {purge: purged{version: 2, acked: 100 * ms}, asked: 149 * ms},
		"asked for after the Bound":               {purge: purged{version: 2, acked: 100 * ms}, asked: 151 * ms, found: true},
		"asked for long before the purge":         {purge: purged{version: 2, acked: 100 * ms}, asked: 1 * ms},
		"of the purge's version":                  {purge: purged{version: 1, acked: 100 * ms}, asked: 500 * ms},
		"stale after a hard purge":                {purge: purged{version: 2, acked: 100 * ms}, asked: 151 * ms, old: true, found: true},
		"stale after a soft purge":                {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 151 * ms, old: true},
		"not said to be stale after a soft one":   {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 151 * ms, found: true},
		"asked for before a soft purge's Bound":   {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 149 * ms},
		"of a version after that of a soft purge": {purge: purged{version: 1, acked: 100 * ms, soft: true}, asked: 151 * ms},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newChecker(Bound)
			good, bad := c.observer("good"), c.observer("bad")
			c.acknowledged(test.purge)
			for at := time.Duration(0); at < 600*ms; at += ms {
				good.saw(at, 2, cache.Status{})
			}
			bad.saw(test.asked, 1, cache.Status{Stale: test.old})
			good.saw(600*ms, 3, cache.Status{})
			if v := c.check(); (len(v.Violations) > 0) != test.found {
				t.Errorf("found %q", v.Violations)
			}
		})
	}
}

// TestOnlyAPurgeOfWhatWasLoadedAloneIsExcused has a replica answer from its copy until second 10, and fail
// at second 11.
func TestOnlyAPurgeOfWhatWasLoadedAloneIsExcused(t *testing.T) {
	began := time.Now()
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	for name, test := range map[string]struct {
		purged, away int // when something was, and since when Redis was; 0 for not
		excused      bool
	}{
		"nothing":                   {away: 5},
		"what it loaded":            {purged: 5, away: 5, excused: true},
		"while it was away":         {purged: 9, away: 5, excused: true},
		"afterwards":                {purged: 12, away: 5},
		"long before":               {purged: 3, away: 5},
		"while Redis was reachable": {purged: 9},
	} {
		c := &checker{purged: []*span{{at(test.purged), at(test.purged)}}}
		l := loss{replica: "replica 1", version: 1, last: at(10), first: at(11)}
		if test.away > 0 {
			l.away = at(test.away)
		}
		if c.failed(l, ErrDown); (c.excused > 0) != test.excused {
			t.Errorf("%s: excused %d times", name, c.excused)
		}
	}
}

// noted is a test whose errors are counted.
type noted struct {
	testing.TB
	errors int
}

func (n *noted) Errorf(string, ...any) { n.errors++ }

// vain is a replica that never answers.
type vain func()

func (wait vain) Get(context.Context, string) (int64, cache.Status, error) {
	wait()
	return 0, cache.Status{}, cache.ErrWait
}

// TestAWaitInVainIsExcusedOnlyByAMachineThatIsHeldUp has it be held up for so long in each of two
// waits.
func TestAWaitInVainIsExcusedOnlyByAMachineThatIsHeldUp(t *testing.T) {
	for heldUp, want := range map[time.Duration]int{0: 1, time.Second: 1, answerTime: 0} {
		ctx, cancel := context.WithCancel(t.Context())
		c, k, n, waits := &Campaign{seats: map[string]*seat{"replica 1": {}}}, newChecker(Bound), &noted{TB: t}, 0
		c.read(ctx, n, vain(func() {
			k.start = k.start.Add(-answerTime)
			c.heldUp.Add(int64(heldUp))
			if waits++; waits > 2 {
				cancel()
			}
		}), "banners", k.observer("replica 1"))
		if cancel(); n.errors != want {
			t.Errorf("held up for %v: %d errors, want %d", heldUp, n.errors, want)
		}
	}
}

// TestWhoHasAnsweredWithNothingHasLostNothing has the CMS fail from the start.
// TestWhatAPurgeMadeVoidIsNotHeld has a purge come between each of two leases and its load. Who
// waits gets the second document, which nobody has purged since its fetch began; it is not stored,
// and nothing is there to serve when the CMS fails.
func TestWhatAPurgeMadeVoidIsNotHeld(t *testing.T) {
	server, src, begun := redistest.Start(t), NewOrigin(0), make(chan struct{})
	origins, c := map[string]*Origin{"banners": src}, &Campaign{}
	n := StartFleet(t, server.URL(), 1, origins, Setup{Timeout: Patient, Options: func(key string, o *cache.ReaderOptions[int64]) {
		Failing(key, o)
		load := o.Loader
		o.Loader = cache.LoaderFunc(func(ctx context.Context, key string, held *cache.Document) (cache.Loaded, error) {
			<-begun
			if src.Loads.Load() < 2 {
				over := c.Untrusted()
				testkit.Check(t, server.Client().Del(t.Context(), Prefix+key).Err())
				over()
			}
			loaded, err := load.Load(ctx, key, held)
			c.Fail(src.Loads.Load() > 1)
			return loaded, err
		})
	}})
	c.Origins, c.Replicas = origins, Named(n)
	c.Begin(t)
	close(begun)
	testkit.Eventually(t, "the CMS fails", func() bool { return src.Loads.Load() > 5 })
	if v := c.End(); len(v.Lost) > 0 {
		t.Error(v.Lost[0])
	}
	if _, _, err := n[0].Get(t.Context(), "banners"); !errors.Is(err, ErrDown) {
		t.Errorf("got %v", err)
	}
}
