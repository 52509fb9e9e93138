package coherence

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// purgeAndHang purges, and has Redis carry out nothing more for anybody: the purge is announced,
// and nobody can look.
func purgeAndHang(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), Prefix+key)
		p.Do(t.Context(), "CLIENT", "PAUSE", "60000", "ALL")
		return nil
	})
	must(t, err)
}

// TestPurgeReceivedBeforeRedisIsLostIsNotUndone has Redis come back empty after a purge that the
// replica received and could not look at. What it lost is not what was purged.
func TestPurgeReceivedBeforeRedisIsLostIsNotUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	src := NewOrigin(0)
	var received lines
	var failing atomic.Bool
	n := StartFleet(t, server.URL(), 1, map[string]*Origin{"banners": src}, Setup{
		Logger: received.logger(),
		Options: func(key string, o *cache.ReaderOptions[int64]) {
			Long(key, o)
			o.Loader = cache.LoaderFunc(func(ctx context.Context, key string, held *cache.Document) (cache.Loaded, error) {
				if failing.Load() {
					return cache.Loaded{}, errors.New("the CMS is down")
				}
				return src.Loader("").Load(ctx, key, held)
			})
		},
	})[0]
	want(t, n, 1)
	failing.Store(true)
	before := settled(t, &received)
	purgeAndHang(t, server.Client(), "banners")
	eventually(t, "the purge is received", func() bool { return received.changes() > before })
	server.Kill()
	server.Restart()
	eventually(t, "Redis is back", func() bool { return n.Store.Up() && n.Store.Listening() })
	for range 20 {
		if version, status, err := n.Get(t.Context(), "banners"); err == nil {
			t.Fatalf("version %d, which was purged, is served again: %+v", version, status)
		}
	}
	if etag, err := server.Client().HGet(t.Context(), Prefix+"banners", "etag").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("Redis holds %q again, %v", etag, err)
	}
	src.Version.Store(2)
	failing.Store(false)
	eventually(t, "the new version", func() bool {
		version, _, err := n.Get(t.Context(), "banners")
		return err == nil && version == 2
	})
}

// TestPurgeReceivedBeforeRedisDiesHoldsForALoadUnderWay has the fill fail, not be refused: what was
// loaded is known to be old all the same, also where nothing but the purge itself could tell.
func TestPurgeReceivedBeforeRedisDiesHoldsForALoadUnderWay(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"it was looked at": false, "nobody could look": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDuel(t)
			d.src2.Deaf = hangs
			release := d.src2.Hold()
			waiting := inBackground(t, d.two)
			testkit.Receive(t, d.src2.Entered)
			eventually(t, "its own lease is announced", func() bool { return d.received.changes() > 0 })
			received := d.received.changes()
			d.src2.Version.Store(2)
			if hangs {
				purgeAndHang(t, d.server.Client(), "banners")
			} else {
				d.purge(t)
			}
			eventually(t, "the purge is received", func() bool { return d.received.changes() > received })
			d.server.Kill()
			release()
			if got := testkit.Receive(t, waiting); got != 2 {
				t.Errorf("who waited got version %d, whose fetch began before the purge; want 2", got)
			}
			version, status, err := d.two.Get(t.Context(), "banners")
			must(t, err)
			if version != 2 || status.Detail != cache.DetailRedisAway {
				t.Errorf("then: version %d, %+v", version, status)
			}
		})
	}
}

// TestASoftPurgeThatNobodyCouldLookAtDropsTheCopy has Redis hang as soon as it is announced: it may
// have been a hard one.
func TestASoftPurgeThatNobodyCouldLookAtDropsTheCopy(t *testing.T) {
	t.Parallel()
	server, src := redistest.Start(t), NewOrigin(0)
	n := StartFleet(t, server.URL(), 1, map[string]*Origin{"banners": src}, Setup{Options: Long})[0]
	want(t, n, 1)
	src.Down.Store(true)
	_, err := server.Client().TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), Prefix+"banners", "fresh_until", 0)
		p.Do(t.Context(), "CLIENT", "PAUSE", "60000", "ALL")
		return nil
	})
	must(t, err)
	eventually(t, "the copy is dropped", func() bool {
		_, _, err := n.Get(t.Context(), "banners")
		return errors.Is(err, ErrDown)
	})
}

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
