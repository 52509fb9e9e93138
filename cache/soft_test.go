package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestASoftPurgeReachesACopyThatRedisRefused has a relay on the way cut documents of 300 KiB: Redis has an
// earlier version, or the placeholder of the first. A soft purge comes twice, and while one is loaded.
func TestASoftPurgeReachesACopyThatRedisRefused(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	for name, first := range map[string]bool{"the first version": true, "a later one": false} {
		t.Run(name, func(t *testing.T) {
			s, src := startRedis(t), newSource()
			way := redistest.NewRelay(t, s.Addr)
			way.Narrow(size)
			var small atomic.Bool
			small.Store(!first)
			r := one(t, way.URL(), LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
				if small.Load() {
					return src.Load(ctx, key, nil)
				}
				return padded(src, size).Load(ctx, key, held)
			}), nil)
			purge := func() { must(t, s.Client().HSet(t.Context(), key, "fresh_until", 0).Err()) }
			if !first {
				saying(t, r, "1 memory")
				small.Store(false)
				src.version.Store(2)
				purge()
			}
			saying(t, r, fmt.Sprint(src.version.Load(), " redis-refused"))
			for range 2 {
				received(t, r)
				src.version.Add(1)
				purge()
				saying(t, r, fmt.Sprint(src.version.Load(), " redis-refused"))
			}
			received(t, r)
			release := src.hold()
			purge()
			testkit.Receive(t, src.entered)
			received(t, r)
			src.version.Add(1)
			purge()
			received(t, r)
			release()
			saying(t, r, fmt.Sprint(src.version.Load(), " redis-refused"))
		})
	}
}

// TestASoftPurgeDuringALoadThatIsHeldBackIsFollowed, although nobody reads.
func TestASoftPurgeDuringALoadThatIsHeldBackIsFollowed(t *testing.T) {
	b, src := anyStore(t), newSource(2)
	o := guarded(src, time.Hour)
	o.TTL = time.Minute
	_, r := replica(t, b.url, o)
	warm(t, r)
	src.version.Store(101)
	release := src.hold()
	purge := func() { must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err()) }
	purge()
	testkit.Receive(t, src.entered)
	purge()
	received(t, r)
	src.version.Store(4)
	release()
	eventually(t, "it is loaded again", func() bool { return r.Snapshot().Value == 4 })
}
