package cache

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
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

func TestASoftPurgeIsNotMissedByALookThatBeganBeforeIt(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	warm(t, r)
	filled := watch.Now()
	eventually(t, "the fill itself is received", func() bool { return r.watched.ReceivedSince(filled) })
	warm(t, r)
	// A visitor's look is under way. It has seen the copy as it was, and comes back after the
	// purge is received.
	end := holdLooks(t, r, r.memory.Load(), nil)
	mark := r.watched.Mark()
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	eventually(t, "the purge is received", func() bool { return r.watched.Changed(&mark) })
	end()
	eventually(t, "it is fetched anew, though nobody reads", func() bool { return src.loads.Load() == 2 })
}

// TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain has Redis refuse writes while a document is
// loaded: neither the fill nor the release reaches it, so that the replica finds a lease of its
// own.
func TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src, r := serving(t, server.URL())
			warm(t, r)
			must(t, server.Client().Del(t.Context(), key).Err())
			release := src.hold()
			var reading sync.WaitGroup
			reading.Go(func() {
				for src.loads.Load() < 2 { // until the purge is received
					_, _ = r.Get(t.Context())
				}
			})
			testkit.Receive(t, src.entered)
			refuse(t, server)
			release()
			reading.Wait()
			before := src.loads.Load()
			watch.Sleep(t.Context(), time.Second)
			if n := src.loads.Load() - before; n > 1 {
				t.Errorf("loaded %d times in a second, though nobody read", n)
			}
		})
	}
}

// TestADocumentThatIsDueIsNotTriedWithoutRest has Redis refuse writes and the CMS fail after a soft
// purge.
func TestADocumentThatIsDueIsNotTriedWithoutRest(t *testing.T) {
	server, src := startRedis(t), newSource()
	o := options(src)
	o.BackoffFirst, o.BackoffMost = time.Minute, time.Minute
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	src.fail(errDown)
	refuseAfter(t, server.Client(), "fresh_until", "0")
	eventually(t, "the CMS is tried", func() bool { return src.loads.Load() > 1 })
	before := commands(t, server)
	watch.Sleep(t.Context(), time.Second)
	if n := commands(t, server) - before; n > 500 {
		t.Errorf("%d commands in a second, though nobody read", n)
	}
}

// TestADocumentThatAProcessCannotLoadIsLoadedByOthers has visitors ask only the replica whose
// breaker is open. Another one, which nobody asks, fetches for it, once.
func TestADocumentThatAProcessCannotLoadIsLoadedByOthers(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		due  func(s *Store) error
	}{
		"at the start":            {},
		"after a hard purge":      {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", false); return err }},
		"after a soft purge":      {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", true); return err }},
		"past its freshness":      {due: func(*Store) error { <-time.After(300 * time.Millisecond); return nil }},
		"without CLIENT TRACKING": {args: []string{"--rename-command", "CLIENT", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, test.args...)
			src := newSource()
			able, unable := options(src), options(newSource())
			if name == "past its freshness" {
				able.TTL, able.StaleWhileRevalidate, able.StaleIfError = 200*time.Millisecond, 0, 0
				unable.TTL, unable.StaleWhileRevalidate, unable.StaleIfError = able.TTL, 0, 0
			}
			open := fmt.Errorf("fetch: %w", untried(time.Hour))
			unable.BackoffMost = time.Hour
			unable.Unable = func() error { return open }
			unable.Loader = LoaderFunc(func(context.Context, string, *Document) (Loaded, error) { return Loaded{}, open })
			other, asked := alone(t, server.URL(), able), alone(t, server.URL(), unable)
			s := asked.store
			eventually(t, "purges are received", func() bool { return test.args != nil || s.Listening() && other.store.Listening() })
			if test.due != nil {
				get(t, other)
				src.version.Store(2)
				must(t, test.due(s))
			}
			want := src.version.Load()
			eventually(t, "the one that is asked has the document", func() bool {
				a, err := asked.Get(t.Context())
				return err == nil && a.Value == want && !a.Status.Stale
			})
			if n := src.loads.Load(); name != "past its freshness" && n != want {
				t.Errorf("%d loads, want %d", n, want)
			}
		})
	}
}

// TestAWishDuringALookIsFulfilled has another process want the document once a look has read that it
// was purged, and before that is known here; or once that is known.
func TestAWishDuringALookIsFulfilled(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"the purge is not known": false, "the purge is known": true} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src, r := serving(t, b.url)
			warm(t, r)
			end := holdLooks(t, r, nil, errDown)
			must(t, b.client.Del(t.Context(), key).Err())
			if known {
				received(t, r)
			}
			enter := earlyLook(t, r)
			if known {
				enter()
				end()
				end = holdLooks(t, r, r.memory.Load(), nil) // which has not read the wish
			}
			rec, err := another().Look(t.Context(), b.client, "")
			must(t, err)
			must(t, another().Want(t.Context(), b.client, &rec, time.Minute))
			received(t, r)
			if !known {
				enter()
			}
			end()
			elapsed := testkit.Stopwatch(t)
			eventually(t, "it is fetched", func() bool { return src.loads.Load() == 2 })
			if took := elapsed(); took > time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
}
