package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestARedisThatComesBackEmptyHasLostDocumentsNotPurgedThem has the CMS away: the last good copy is
// served, and says why.
func TestARedisThatComesBackEmptyHasLostDocumentsNotPurgedThem(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	_, other := replica(t, server.URL(), options(src))
	warm(t, r)
	warm(t, other)
	src.fail(errDown)
	server.Kill()
	eventually(t, "it is noticed", func() bool { return get(t, r).Status.Detail == DetailRedisAway })
	server.Restart()
	for _, r := range []*Reader[int64]{r, other} {
		eventually(t, "the loss is said", func() bool {
			a := get(t, r) // never an error
			return a.Value == 1 && a.Status.Detail == DetailRedisLost
		})
	}
	// The first fetch that succeeds ends it.
	src.fail(nil)
	src.version.Store(2)
	for _, r := range []*Reader[int64]{r, other} {
		eventually(t, "the new version", func() bool { a := get(t, r); return a.Value == 2 && a.Status.Detail == DetailMemory })
	}
}

func TestALossIsNotNoticedWhileTheCMSIsWell(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	src.version.Store(2)
	server.Kill()
	server.Restart()
	eventually(t, "fetched again", func() bool {
		a := get(t, r)
		if a.Status.Detail == DetailRedisLost {
			t.Errorf("got %+v", a.Status)
		}
		return a.Value == 2 && a.Status.Detail == DetailMemory
	})
}

// TestALostDocumentIsRenewedAndStored has the CMS say that the copy that Redis has lost is current.
func TestALostDocumentIsRenewedAndStored(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	renewed := make(chan bool, 10)
	_, r := replica(t, server.URL(), options(LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, held)
		renewed <- loaded.NotModified
		return loaded, err
	})))
	warm(t, r)
	testkit.Receive(t, renewed)
	changed := server.Client().HGet(t.Context(), key, "changed_at").Val()
	server.Kill()
	server.Restart()
	eventually(t, "it is stored", func() bool {
		a := get(t, r)
		stored := server.Client().HGetAll(t.Context(), key).Val()
		return a.Status.Detail == DetailMemory && stored["body"] == string(body(1)) && stored["changed_at"] == changed
	})
	for len(renewed) > 0 {
		if !testkit.Receive(t, renewed) {
			t.Error("it was fetched whole")
		}
	}
}

// TestAPurgeWhileCutOffIsOne has the data set live on: what is gone then was purged.
func TestAPurgeWhileCutOffIsOne(t *testing.T) {
	t.Parallel()
	for name, purge := range map[string]func(*testing.T, *redistest.Server) error{
		"DEL": func(t *testing.T, s *redistest.Server) error { return s.Client().Del(t.Context(), key).Err() },
		"DEL, and a restart with what is left": func(t *testing.T, s *redistest.Server) error {
			err := s.Client().Del(t.Context(), key).Err()
			s.Restart()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			way := redistest.NewRelay(t, server.Addr)
			src, r := serving(t, way.URL())
			warm(t, r)
			src.fail(errDown)
			way.Cut()
			eventually(t, "it is noticed", func() bool { return get(t, r).Status.Detail == DetailRedisAway })
			must(t, purge(t, server))
			way.Heal()
			eventually(t, "the purge counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
		})
	}
}

// TestNothingEntersThatWasPurgedBeforeTheLinkWasLost has a purge received, and Redis lost and back
// empty, just before what a look has found, or a fill has stored, enters memory.
func TestNothingEntersThatWasPurgedBeforeTheLinkWasLost(t *testing.T) {
	t.Parallel()
	for _, entering := range []string{"a look", "a fill"} {
		t.Run(entering, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			reached, resume := make(chan struct{}), make(chan struct{})
			var once sync.Once
			hold := func() { once.Do(func() { close(reached); <-resume }) }
			o, events := options(src), Events{}
			if entering == "a look" {
				fill(t, server.Client(), acquire(t, server.Client(), time.Minute), 1)
				o.Prepare = func(d *Document) (int64, error) { hold(); return prepare(d) }
			} else {
				events.Fetched = func(string, string, time.Duration, error) { hold() }
			}
			s, r := replicaWith(t, Options{URL: server.URL(), Events: events}, o)
			first := make(chan struct{})
			go func() {
				defer close(first)
				_, _ = r.Get(t.Context()) // asked before the purge: either will do
			}()
			testkit.Receive(t, reached)
			must(t, server.Client().Del(t.Context(), key).Err())
			received(t, r)
			src.fail(errDown)
			server.Kill()
			eventually(t, "the link is lost", func() bool { return !s.Listening() })
			server.Restart()
			eventually(t, "the link is back", s.Listening)
			close(resume)
			testkit.Receive(t, first)
			for range 20 {
				if a, err := r.Get(t.Context()); err == nil {
					t.Fatalf("purged, and answered: %+v", a)
				}
				watch.Sleep(t.Context(), 5*time.Millisecond)
			}
		})
	}
}

// TestAFirstLeaseDuringALookIsNoPurge has another replica's stub come after Redis, which has lost
// everything, was read, and be received before what was read is looked at.
func TestAFirstLeaseDuringALookIsNoPurge(t *testing.T) {
	t.Parallel()
	for name, looked := range map[string]bool{"first look": false, "second look": true} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src, r := serving(t, server.URL())
			warm(t, r)
			src.fail(errDown)
			holdLooks(t, r, nil, errDown)
			held := r.memory.Load()
			server.Kill()
			server.Restart()
			eventually(t, "another session", func() bool { return r.watched.Changed(&held.mark) && r.watched.Listening() })
			if looked {
				_, err := r.look()
				must(t, err)
			}
			began, prev, mark := r.begin(), r.memory.Load(), r.watched.Mark()
			rec, err := r.read(prev.etag())
			must(t, err)
			acquire(t, server.Client(), time.Minute)
			received(t, r)
			if _, err := r.learn(began, prev, &rec, mark, false); err != nil && !errors.Is(err, errEarly) {
				t.Error(err)
			}
			e, err := r.look()
			must(t, err)
			if !e.holds(watch.Now()) || e.origin != originLost {
				t.Fatalf("nobody has purged it, but memory holds: %+v", e)
			}
			must(t, server.Client().Del(t.Context(), key).Err())
			received(t, r)
			if e, err = r.look(); err != nil || e.doc != nil {
				t.Errorf("purged, but memory holds: %+v, %v", e, err)
			}
		})
	}
}
