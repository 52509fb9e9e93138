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
	var received atomic.Int64
	var failing atomic.Bool
	n := StartFleet(t, server.URL(), 1, map[string]*Origin{"banners": src}, Setup{
		Events: cache.Events{Invalidated: func(string) { received.Add(1) }},
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
	eventually(t, "the purge is received", func() bool { return received.Load() > before })
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

// TestPurgeReceivedDuringALoadHoldsAlthoughNobodyCanLook has the load end, and its fill fail,
// before anything but the purge itself can tell.
func TestPurgeReceivedDuringALoadHoldsAlthoughNobodyCanLook(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.src2.Deaf = true
	release := d.src2.Hold()
	waiting := inBackground(t, d.two)
	testkit.Receive(t, d.src2.Entered)
	eventually(t, "its own lease is announced", func() bool { return d.received.Load() > 0 })
	received := d.received.Load()
	d.src2.Version.Store(2)
	purgeAndHang(t, d.server.Client(), "banners")
	eventually(t, "the purge is received", func() bool { return d.received.Load() > received })
	d.server.Kill()
	release()
	if got := testkit.Receive(t, waiting); got != 2 {
		t.Errorf("who waited got version %d, whose load began before the purge that was received; want 2", got)
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
	c := newChecker(Bound)
	c.acknowledged(1, "HSET", true)
	for away, excused := range map[time.Time]int{{}: 0, time.Now(): 1} {
		c.excused, c.lost = 0, nil
		if c.failed("replica 1", 1, cache.Status{}, time.Now(), away, src, ErrDown); c.excused != excused || len(c.lost) != 1-excused {
			t.Errorf("with Redis away since %v: %d excused, %q", away, c.excused, c.lost)
		}
	}
}

// TestOnlyALoadJustBeforeALossExcusesIt has another replica load, and the first lose its copy at once,
// or later.
func TestOnlyALoadJustBeforeALossExcusesIt(t *testing.T) {
	t.Parallel()
	src := NewOrigin(0)
	_, err := src.Fetch(t.Context(), "replica 2")
	must(t, err)
	for after, excused := range map[time.Duration]int{-time.Second: 0, 0: 1, time.Second: 0} {
		c := newChecker(Bound)
		if c.failed("replica 1", 1, cache.Status{}, time.Now().Add(after), time.Time{}, src, ErrDown); c.excused != excused {
			t.Errorf("last answered %v after it: %q", after, c.lost)
		}
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
				must(t, server.Client().Del(t.Context(), Prefix+key).Err())
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
