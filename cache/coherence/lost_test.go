package coherence

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

// purgeAndHang purges, and has Redis carry out nothing more for anybody: the purge is announced,
// and nobody can look.
func purgeAndHang(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), prefix+key)
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
	src := newOrigin(0)
	var heard atomic.Int64
	var failing atomic.Bool
	n := startFleet(t, server.URL(), 1, map[string]*origin{"banners": src}, setup{
		events: cache.Events{Invalidated: func(string) { heard.Add(1) }},
		options: func(key string, o *cache.ReaderOptions[int64]) {
			long(key, o)
			o.Loader = cache.LoaderFunc(func(ctx context.Context, key string, held *cache.Document) (cache.Loaded, error) {
				if failing.Load() {
					return cache.Loaded{}, errors.New("the CMS is down")
				}
				return src.Load(ctx, key, held)
			})
		},
	})[0]
	want(t, n, 1)
	failing.Store(true)
	before := settled(t, &heard)
	purgeAndHang(t, server.Client(), "banners")
	eventually(t, "the purge is received", func() bool { return heard.Load() > before })
	server.Kill()
	server.Restart()
	eventually(t, "Redis is back", func() bool { return n.store.Up() && n.store.Listening() })
	for range 20 {
		if version, status, err := n.get(t.Context(), "banners"); err == nil {
			t.Fatalf("version %d, which was purged, is served again: %+v", version, status)
		}
	}
	if etag, err := server.Client().HGet(t.Context(), prefix+"banners", "etag").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("Redis holds %q again, %v", etag, err)
	}
	src.version.Store(2)
	failing.Store(false)
	eventually(t, "the new version", func() bool {
		version, _, err := n.get(t.Context(), "banners")
		return err == nil && version == 2
	})
}

// TestPurgeReceivedDuringALoadHoldsAlthoughNobodyCanLook has the load end, and its fill fail,
// before anything but the purge itself can tell.
func TestPurgeReceivedDuringALoadHoldsAlthoughNobodyCanLook(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.src2.deaf = true
	release := d.src2.hold()
	waiting := inBackground(t, d.two)
	<-d.src2.entered
	eventually(t, "its own lease is announced", func() bool { return d.heard.Load() > 0 })
	heard := d.heard.Load()
	d.src2.version.Store(2)
	purgeAndHang(t, d.server.Client(), "banners")
	eventually(t, "the purge is received", func() bool { return d.heard.Load() > heard })
	d.server.Kill()
	release()
	if got := <-waiting; got != 2 {
		t.Errorf("who waited got version %d, whose load began before the purge that was received; want 2", got)
	}
}
