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

// TestOnlyWhatALostLinkExplainsIsExcused has a replica answer from its copy until second 10, and fail
// at second 11.
func TestOnlyWhatALostLinkExplainsIsExcused(t *testing.T) {
	t.Parallel()
	c := newChecker(Bound)
	at := func(second int) time.Time { return c.start.Add(time.Duration(second) * time.Second) }
	lost, told := cache.Status{Detail: cache.DetailRedisLost}, cache.Status{Detail: cache.DetailMemory}
	for name, test := range map[string]struct {
		loads   []load
		soft    int // when a soft purge was acknowledged
		hard    int // when a hard one was
		broke   int // when links did
		away    int // since when Redis was
		status  cache.Status
		excused bool
	}{
		"nothing":                        {broke: 10, away: 10},
		"another's fill":                 {loads: []load{{"replica 2", at(9), at(10)}}, excused: true},
		"another's fill before":          {loads: []load{{"replica 2", at(8), at(9)}}, broke: 10},
		"another's fill afterwards":      {loads: []load{{"replica 2", at(8), at(12)}}, broke: 10},
		"its own fill":                   {loads: []load{{"replica 1", at(9), at(10)}}, broke: 10},
		"another's lease":                {loads: []load{{"replica 2", at(10), time.Time{}}}, broke: 10, status: lost, excused: true},
		"another's lease, a good link":   {loads: []load{{"replica 2", at(10), time.Time{}}}, broke: 9, status: lost},
		"another's lease, a stored copy": {loads: []load{{"replica 2", at(10), time.Time{}}}, broke: 10, status: told},
		"a soft purge":                   {soft: 10, broke: 10, excused: true},
		"a soft purge, a good link":      {soft: 10, broke: 9},
		"a soft purge before":            {soft: 9, broke: 10},
		"a soft purge of what it loaded": {soft: 5, away: 5, excused: true},
		"a soft purge afterwards":        {soft: 12, broke: 10, away: 5},
		"a purge of what it loaded":      {hard: 5, away: 5, excused: true},
		"a purge while it was away":      {hard: 9, away: 5, excused: true},
		"a purge long before":            {hard: 3, away: 5},
	} {
		c := &checker{soft: []*span{{at(test.soft), at(test.soft)}}, hard: []span{{at(test.hard), at(test.hard)}}}
		l := loss{replica: "replica 1", version: 1, status: test.status, last: at(10), first: at(11), broke: at(test.broke)}
		if test.away > 0 {
			l.away = at(test.away)
		}
		if c.failed(l, &Origin{loads: test.loads}, ErrDown); (c.excused > 0) != test.excused {
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
func TestWhoHasAnsweredWithNothingHasLostNothing(t *testing.T) {
	t.Parallel()
	c := newChecker(Bound)
	if c.failed(loss{replica: "replica 1", first: time.Now()}, NewOrigin(0), ErrDown); len(c.lost) > 0 {
		t.Error(c.lost[0])
	}
}

// TestWhatAPurgeMadeVoidIsNotHeld has a purge come between each of two leases and its load. Who
// waits gets the second document, which nobody has purged since its fetch began; it is not stored,
// and nothing is there to serve when the CMS fails.
func TestWhatAPurgeMadeVoidIsNotHeld(t *testing.T) {
	server, src, begun := redistest.Start(t), NewOrigin(0), make(chan struct{})
	origins, c := map[string]*Origin{"banners": src}, &Campaign{}
	n := StartFleet(t, server.URL(), 1, origins, Setup{Name: "replica 1", Timeout: Patient, Options: func(key string, o *cache.ReaderOptions[int64]) {
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
