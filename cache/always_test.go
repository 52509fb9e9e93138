package cache

import (
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// always is options with which documents are fetched although nobody reads.
func always(src Loader, ttl time.Duration) ReaderOptions[int64] {
	o := options(src)
	o.Always, o.TTL = true, ttl
	return o
}

func TestDocumentsStayFreshWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	const ttl = 150 * time.Millisecond
	src := newSource()
	began := watch.Now()
	replica(t, b.url, always(src, ttl))
	replica(t, b.url, always(src, ttl))
	eventually(t, "it is refreshed, and again", func() bool { return src.loads.Load() >= 5 })
	loads := src.loads.Load()
	if most := int64((watch.Now()-began)/ttl) + 1; loads > most || src.most.Load() > 1 {
		t.Errorf("%d loads, at most %d at once; want %d, one at a time", loads, src.most.Load(), most)
	}
}

func TestAHardPurgeIsFollowedByAFetchWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	_, r := replica(t, b.url, always(src, time.Minute))
	_, other := replica(t, b.url, always(src, time.Minute))
	holding := func(version int64) func() bool {
		return func() bool {
			return r.Snapshot().Value == version && other.Snapshot().Value == version
		}
	}
	eventually(t, "both hold it", holding(1))
	src.version.Store(2)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "both hold the new one", holding(2))
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want 2", n)
	}
}

// TestNothingIsFetchedDuringAPause has the attendant keep a failure's pause, which a purge ends.
func TestNothingIsFetchedDuringAPause(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	o := always(src, time.Minute)
	o.BackoffFirst, o.BackoffMost = time.Hour, time.Hour
	src.fail(errDown)
	_, r := replica(t, b.url, o)
	eventually(t, "it has failed", func() bool { return r.Snapshot().Failing && !r.Snapshot().Fetching })
	watch.Sleep(t.Context(), 3*retryPause)
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
	src.fail(nil)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "it is fetched", func() bool { return r.Snapshot().Value == 1 })
}

func TestAPinnedDocumentIsNotRefreshedWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	const ttl = 100 * time.Millisecond
	o := described(src)
	o.Always, o.TTL = true, ttl
	s, r := replica(t, b.url, o)
	eventually(t, "it is in the history", func() bool { return len(names(t, s)) == 1 })
	_, err := s.Restore(t.Context(), "banners", lease.VersionOf(body(1)), time.Hour, "me")
	must(t, err)
	eventually(t, "the pin is known, and nobody fetches", func() bool {
		return r.memory.Load().pinned() && src.now.Load() == 0 && !r.Snapshot().Fetching
	})
	n := src.loads.Load()
	watch.Sleep(t.Context(), 3*ttl)
	if now := src.loads.Load(); now != n {
		t.Errorf("%d loads while it was pinned", now-n)
	}
	_, err = s.Unpin(t.Context(), "banners")
	must(t, err)
	eventually(t, "it is fetched again", func() bool { return src.loads.Load() > n })
}

// TestDocumentsStayFreshWithoutRedis has each replica refresh its own copy.
func TestDocumentsStayFreshWithoutRedis(t *testing.T) {
	server, src := startRedis(t), newSource()
	_, r := replica(t, server.URL(), always(src, 100*time.Millisecond))
	eventually(t, "it is held", func() bool { return r.Snapshot().Value == 1 })
	server.Kill()
	eventually(t, "it is noticed", func() bool { return !r.watched.Up() })
	src.version.Store(2)
	eventually(t, "it is refreshed", func() bool { return r.Snapshot().Value == 2 })
}
