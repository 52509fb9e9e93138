package cache

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func configure(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	must(t, s.Client().ConfigSet(t.Context(), name, value).Err())
}

// refusals are ways in which a server that answers every PING refuses to write.
var refusals = map[string]func(t *testing.T, s *redistest.Server) (end func()){
	"OOM": func(t *testing.T, s *redistest.Server) func() {
		configure(t, s, "maxmemory", "1")
		return func() { configure(t, s, "maxmemory", "0") }
	},
	"NOREPLICAS": func(t *testing.T, s *redistest.Server) func() {
		configure(t, s, "min-replicas-to-write", "1")
		return func() { configure(t, s, "min-replicas-to-write", "0") }
	},
	"READONLY": func(t *testing.T, s *redistest.Server) func() {
		must(t, s.Client().ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		return func() { must(t, s.Client().ReplicaOf(t.Context(), "NO", "ONE").Err()) }
	},
}

// refuseAfter has writes be refused from just after these fields of the document are written.
func refuseAfter(t *testing.T, c *redis.Client, fields ...any) {
	t.Helper()
	_, err := c.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.HSet(t.Context(), key, fields...)
		tx.ConfigSet(t.Context(), "min-replicas-to-write", "1")
		return nil
	})
	must(t, err)
}

func TestReplicasAreListedWhereWritesAreRefused(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			s := openStore(t, server.URL())
			must(t, server.Client().HSet(t.Context(), "vitrine:replicas", "long gone", "12345 report").Err())
			defer refuse(t, server)()
			if all, err := s.Replicas(t.Context(), time.Minute); err != nil || len(all) > 0 {
				t.Errorf("got %+v, %v", all, err)
			}
		})
	}
}

// TestADocumentFromTheFutureInAReadOnlyRedisIsFetchedOnce has the clock of Redis set back when it
// refuses writes: the document there is due, and cannot be replaced.
func TestADocumentFromTheFutureInAReadOnlyRedisIsFetchedOnce(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	src.version.Store(2)
	at := time.Now().Add(time.Hour).UnixMilli()
	refuseAfter(t, server.Client(), "fetched_at", at, "fresh_until", at+60_000)
	eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
	before := src.loads.Load()
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; watch.Sleep(t.Context(), time.Millisecond) {
		if a := get(t, r); a.Value != 2 || a.Status.Stale {
			t.Fatalf("got %+v", a)
		}
	}
	if n := src.loads.Load() - before; n > 0 {
		t.Errorf("loaded %d times within its TTL", n)
	}
	must(t, server.Client().ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	must(t, server.Client().Del(t.Context(), key).Err())
	src.version.Store(3)
	eventually(t, "a purge still counts", func() bool { return get(t, r).Value == 3 })
}

// TestARedisThatRefusesWritesKeepsTheNewerCopyInMemory has the CMS change while Redis holds an
// older version, and then fail: nobody is given the older version again, and nobody an error.
func TestARedisThatRefusesWritesKeepsTheNewerCopyInMemory(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src := newSource()
			o := options(src)
			o.TTL, o.StaleWhileRevalidate = 500*time.Millisecond, 0
			store, r := replica(t, server.URL(), o)
			warm(t, r)
			end := refuse(t, server)
			src.version.Store(2)
			var a Answer[int64]
			eventually(t, "the newer version", func() bool { a = get(t, r); return a.Value == 2 })
			if a.Status.Detail != DetailRedisRefused || a.Status.Stored {
				t.Errorf("an answer that is not stored says %+v", a.Status)
			}
			if !store.Up() || !strings.Contains(store.Refusing(), name) {
				t.Errorf("up: %t, refusing: %q", store.Up(), store.Refusing())
			}
			ask := func(d time.Duration) (loads int64, took time.Duration) {
				before, began := src.loads.Load(), time.Now()
				for ; time.Since(began) < d; watch.Sleep(t.Context(), time.Millisecond) {
					if a := get(t, r); a.Value != 2 {
						t.Fatalf("version %d again: %+v", a.Value, a.Status)
					}
				}
				return src.loads.Load() - before, time.Since(began)
			}
			if n, took := ask(2 * time.Second); n > int64(took/o.TTL)+1 {
				t.Errorf("%d loads in %v, with a TTL of %v", n, took, o.TTL)
			}
			src.fail(errDown)
			ask(time.Second)
			end()
			src.fail(nil)
			src.version.Store(3)
			eventually(t, "it is stored again", func() bool {
				a := get(t, r)
				return a.Value == 3 && a.Status.Detail == DetailMemory && store.Refusing() == ""
			})
		})
	}
}

// padded makes the documents of a source big.
func padded(src *source, size int) Loader {
	return LoaderFunc(func(ctx context.Context, key string, _ *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, nil)
		loaded.Body = append(loaded.Body, bytes.Repeat([]byte(" "), size)...)
		return loaded, err
	})
}

func refuseAfterAFailure(t *testing.T, server *redistest.Server, src *source, r *Reader[int64]) {
	t.Helper()
	warm(t, r)
	src.fail(errDown)
	eventually(t, "the failure is recorded", func() bool {
		get(t, r)
		return strings.HasPrefix(server.Client().HGet(t.Context(), books, "lease").Val(), "failed:")
	})
	refusals["NOREPLICAS"](t, server)
}

// TestAFailureThatRedisCannotRecordIsPausedAfter has the CMS fail first, so that Redis holds the
// record of an older failure, whose pause is over.
func TestAFailureThatRedisCannotRecordIsPausedAfter(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL, o.BackoffFirst, o.BackoffMost = 50*time.Millisecond, 200*time.Millisecond, time.Second
	_, r := replica(t, server.URL(), o)
	refuseAfterAFailure(t, server, src, r)
	before, began := src.loads.Load(), time.Now()
	for ; time.Since(began) < time.Second; watch.Sleep(t.Context(), time.Millisecond) {
		get(t, r)
	}
	if n, took := src.loads.Load()-before, time.Since(began); float64(n) > 6*took.Seconds() {
		t.Errorf("%d loads in %v", n, took)
	}
}

// TestAFailureThatRedisRecordsAgainEndsARefusal has Redis be full just when a load fails, and the CMS
// fail for longer than that.
func TestAFailureThatRedisRecordsAgainEndsARefusal(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	s, r := replica(t, server.URL(), options(src))
	warm(t, r)
	src.fail(errDown)
	release := src.hold()
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", 0).Err())
	testkit.Receive(t, src.entered)
	end := refusals["OOM"](t, server)
	release()
	eventually(t, "it is refused", func() bool { return s.Refusing() != "" })
	end()
	eventually(t, "it is not refused any more", func() bool { get(t, r); return s.Refusing() == "" })
}

// TestASuccessThatRedisCannotRecordEndsAFailure has the CMS work again once the record of its failure
// can no longer be removed.
func TestASuccessThatRedisCannotRecordEndsAFailure(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL = 50 * time.Millisecond
	_, r := replica(t, server.URL(), o)
	refuseAfterAFailure(t, server, src, r)
	src.fail(nil)
	eventually(t, "it is loaded", func() bool { return get(t, r).Status.Detail == DetailRedisRefused && !r.Snapshot().Failing })
	for range 3 {
		_, err := r.look()
		if must(t, err); r.Snapshot().Failing {
			t.Fatal("the failure is back")
		}
	}
}

// TestAHoldThatRedisCannotForgetEnds has the CMS give a good document once Redis refuses to store it.
func TestAHoldThatRedisCannotForgetEnds(t *testing.T) {
	server := startRedis(t)
	src := newSource(2)
	told := make(chan *HeldBack, 100)
	_, r := replicaWith(t, Options{URL: server.URL(), Events: Events{Held: func(_ string, h *HeldBack) { told <- h }}}, guarded(src, time.Hour))
	get(t, r)
	src.version.Store(101)
	until(t, r, "it is held back", isHeld)
	refusals["NOREPLICAS"](t, server)
	src.version.Store(4)
	until(t, r, "the next is taken", func(a Answer[int64]) bool { return a.Value == 4 })
	for range 3 {
		_, err := r.look()
		must(t, err)
	}
	if begun, over := testkit.Receive(t, told), testkit.Receive(t, told); begun == nil || over != nil || len(told) > 0 {
		t.Errorf("told %+v, %+v, and %d times more", begun, over, len(told))
	}
}

// TestAHoldThatRedisRefusedEndsWithAPurge has the copy purged that a document is held back for, and
// the CMS fail then.
func TestAHoldThatRedisRefusedEndsWithAPurge(t *testing.T) {
	server := startRedis(t)
	src := newSource(2)
	_, r := replica(t, server.URL(), guarded(src, time.Hour))
	get(t, r)
	refusals["OOM"](t, server) // which accepts DEL
	src.version.Store(101)
	until(t, r, "it is held back", func(a Answer[int64]) bool { return a.Value == 2 && r.Snapshot().HeldBack != nil })
	src.fail(errDown)
	until(t, r, "the CMS fails", func(Answer[int64]) bool { return r.Snapshot().Failing })
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "the purge counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
	if h := r.Snapshot().HeldBack; h != nil {
		t.Errorf("it is still held back: %+v", h)
	}
}

// TestAHoldThatRedisRefusedEndsWithAnothersDocument has another replica store one once Redis accepts
// writes again, and this one write nothing.
func TestAHoldThatRedisRefusedEndsWithAnothersDocument(t *testing.T) {
	for name, version := range map[string]int64{"another version": 4, "the same": 2} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src := newSource(2)
			o := guarded(src, time.Hour)
			o.TTL, o.BackoffFirst, o.BackoffMost = time.Minute, time.Hour, time.Hour
			_, r := replica(t, server.URL(), o)
			warm(t, r)
			src.version.Store(101)
			refuseAfter(t, server.Client(), "fresh_until", 0)
			until(t, r, "it is held back", isHeld)
			for range 3 {
				_, err := r.look()
				if must(t, err); r.Snapshot().HeldBack == nil {
					t.Fatal("a look has ended it")
				}
			}
			configure(t, server, "min-replicas-to-write", "0")
			fill(t, server.Client(), acquire(t, server.Client(), time.Minute), version)
			received(t, r)
			e, err := r.look()
			must(t, err)
			if h := r.Snapshot().HeldBack; e.etag() != ETag(body(version)) || h != nil {
				t.Errorf("%s is held, and %+v back", e.doc.Body, h)
			}
		})
	}
}

// TestADocumentThatRedisHasNoRoomForTakesNobodyDown has room for a lease, and none for the
// document: each replica serves what it has fetched itself, and a purge reaches them all.
func TestADocumentThatRedisHasNoRoomForTakesNobodyDown(t *testing.T) {
	server := startRedis(t, "--maxmemory", "3mb")
	src := newSource()
	o := options(padded(src, 4<<20))
	var readers []*Reader[int64]
	for range 3 {
		_, r := replica(t, server.URL(), o)
		readers = append(readers, r)
	}
	elapsed := testkit.Stopwatch(t)
	var answers []<-chan Answer[int64]
	for _, r := range readers {
		answers = append(answers, getLater(t, r))
	}
	for _, got := range answers {
		if a := testkit.Receive(t, got); a.Value != 1 {
			t.Errorf("got %+v", a.Status)
		}
	}
	if took := elapsed(); took > 3*time.Second {
		t.Errorf("it took %v until each had an answer", took)
	}
	eventually(t, "each answers from its memory", func() bool {
		for _, r := range readers {
			if a := get(t, r); a.Status.Fwd != "" || a.Status.Detail != DetailRedisRefused {
				return false
			}
		}
		return true
	})
	if n := src.loads.Load(); n > 6 {
		t.Errorf("%d loads for three replicas", n)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, func() error { return server.Client().Del(t.Context(), key).Err() })
}

// TestAnOlderVersionThatIsPurgedTakesTheNewerOneThatWasNotStoredWithIt deletes while memory is
// full, which Redis allows.
func TestAnOlderVersionThatIsPurgedTakesTheNewerOneThatWasNotStoredWithIt(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL, o.StaleWhileRevalidate = 100*time.Millisecond, 0
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	configure(t, server, "maxmemory", "1")
	src.version.Store(2)
	eventually(t, "the newer version", func() bool { return get(t, r).Value == 2 })
	purgeReaches(t, src, []*Reader[int64]{r}, 50*time.Millisecond, func() error { return server.Client().Del(t.Context(), key).Err() })
}

// TestALeaseIsNoPurgeOfWhatRedisRefused has another replica take the lease in a Redis that held
// nothing when it refused a document, and accepts writes again.
func TestALeaseIsNoPurgeOfWhatRedisRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		purged bool
		events func(*testing.T, *redistest.Server)
	}{
		"a lease": {false, func(t *testing.T, s *redistest.Server) { acquire(t, s.Client(), time.Minute) }},
		"a lease and a failure": {false, func(t *testing.T, s *redistest.Server) {
			_, err := another().Release(t.Context(), s.Client(), acquire(t, s.Client(), time.Minute), lease.Word{Failure: lease.Failure{Count: 1}, Pause: time.Millisecond})
			must(t, err)
		}},
		"DEL of a lease": {true, func(t *testing.T, s *redistest.Server) {
			acquire(t, s.Client(), time.Minute)
			must(t, s.Client().Del(t.Context(), key).Err())
		}},
		"DEL of a lease, and another lease": {true, func(t *testing.T, s *redistest.Server) {
			acquire(t, s.Client(), time.Minute)
			must(t, s.Client().Del(t.Context(), key).Err())
			acquire(t, s.Client(), time.Minute)
		}},
		"FLUSHALL, perhaps of another database": {false, func(t *testing.T, s *redistest.Server) { must(t, s.Client().FlushAll(t.Context()).Err()) }},
		"FLUSHALL, and a lease": {true, func(t *testing.T, s *redistest.Server) {
			must(t, s.Client().FlushAll(t.Context()).Err())
			acquire(t, s.Client(), time.Minute)
		}},
		"a lease that ran out": {false, func(t *testing.T, s *redistest.Server) {
			acquire(t, s.Client(), time.Millisecond)
			watch.Sleep(t.Context(), 5*time.Millisecond)
		}},
		"FLUSHALL, and a lease that ran out": {true, func(t *testing.T, s *redistest.Server) {
			must(t, s.Client().FlushAll(t.Context()).Err())
			acquire(t, s.Client(), time.Millisecond)
			watch.Sleep(t.Context(), 5*time.Millisecond)
		}},
	} {
		for _, acquires := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, acquire: %t", name, acquires), func(t *testing.T) {
				server := startRedis(t)
				accept := refusals["NOREPLICAS"](t, server)
				_, r := replica(t, server.URL(), options(newSource()))
				eventually(t, "it is not stored, and nobody fetches", func() bool {
					return get(t, r).Status.Detail == DetailRedisRefused && !r.Snapshot().Fetching
				})
				holdLooks(t, r, nil, errDown) // but for those here
				mark := r.watched.Mark()
				accept()
				test.events(t, server)
				since := watch.Now()
				eventually(t, "it is announced", func() bool { return r.watched.Changed(&mark) && r.watched.ReceivedSince(since) })
				for range 2 {
					var e *entry[int64]
					var err error
					if acquires {
						_, e, err = r.acquire(t.Context())
					} else {
						e, err = r.look()
					}
					// A stub of this process's own looks as if it had been made after a flush of this database.
					want := test.purged || acquires && strings.HasPrefix(name, "FLUSHALL")
					if err != nil || (e.doc == nil) != want {
						t.Errorf("purged: %t, want %t; %v", e.doc == nil, want, err)
					}
				}
			})
		}
	}
}

// TestASecondSoftPurgeOfARedisThatRefusesWritesCounts declares stale twice what Redis holds, while
// no lease can be taken that would make another number of the first 0.
func TestASecondSoftPurgeOfARedisThatRefusesWritesCounts(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	for version := range 3 {
		src.version.Add(1)
		configure(t, server, "min-replicas-to-write", "0")
		refuseAfter(t, server.Client(), "fresh_until", 0)
		eventually(t, "the new version", func() bool { return get(t, r).Value == int64(version+2) })
	}
}
