package cache

import (
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
)

// TestARedisThatComesBackEmptyHasLostDocumentsNotPurgedThem has the CMS away: the last good copy is
// served, says why, and is put back, so that a replica started later has it as well.
func TestARedisThatComesBackEmptyHasLostDocumentsNotPurgedThem(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	_, r := replica(t, server.URL(), options(src))
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
	eventually(t, "it is back in Redis", func() bool { return server.Client().HGet(t.Context(), key, "fresh_until").Val() == "-1" })
	_, late := replica(t, server.URL(), options(src))
	if a := get(t, late); a.Value != 1 || a.Status.Detail != DetailRedisLost {
		t.Errorf("a replica started later: %+v", a)
	}
	// The first fetch that succeeds ends it.
	src.fail(nil)
	src.version.Store(2)
	for _, r := range []*Reader[int64]{r, other, late} {
		eventually(t, "the new version", func() bool { a := get(t, r); return a.Value == 2 && a.Status.Detail == DetailMemory })
	}
}

// TestALeaseAfterALossIsNoPurge has another replica take the lease in the empty Redis after this one
// has looked at it. Once somebody deletes that lease, the document is purged.
func TestALeaseAfterALossIsNoPurge(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	_, r := replica(t, server.URL(), options(src))
	warm(t, r)
	server.Kill()
	eventually(t, "it is noticed", func() bool { return !r.watched.Up() || get(t, r).Status.Detail == DetailRedisAway })
	server.Restart()
	eventually(t, "it is back", func() bool { return r.watched.Up() && r.watched.Listening() })
	look := func() *entry[int64] {
		t.Helper()
		e, err := r.look()
		must(t, err)
		return e
	}
	if e := look(); e.doc == nil || !e.lost {
		t.Fatalf("the empty Redis: %+v", e)
	}
	another := lease.New("vitrine:", "banners", "another", time.Hour)
	acquire := func(token string) {
		t.Helper()
		mark := r.watched.Mark()
		l, err := another.Acquire(t.Context(), server.Client(), lease.Request{Token: token, Length: time.Minute, TTL: time.Minute, Source: "test"})
		must(t, err)
		if l.Outcome != lease.Granted {
			t.Fatalf("acquire: %s", l.Outcome)
		}
		eventually(t, "it is announced", func() bool { return r.watched.Withdrawn(&mark) })
	}
	acquire("another:1")
	for range 2 {
		if e := look(); e.doc == nil || !e.lost {
			t.Fatalf("another's lease: %+v", e)
		}
	}
	must(t, server.Client().Del(t.Context(), key).Err())
	acquire("another:2")
	if e := look(); e.doc != nil {
		t.Errorf("purged: %+v", e)
	}
}

// TestAValueOfAnotherTypeIsNoPurge has somebody write a string over the document while the CMS is
// away. The first replica that fetches removes it, and the others still know.
func TestAValueOfAnotherTypeIsNoPurge(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		_, r := replica(t, b.url, options(src))
		_, other := replica(t, b.url, options(src))
		warm(t, r)
		warm(t, other)
		src.fail(errDown)
		must(t, b.client.Set(t.Context(), key, "a string", 0).Err())
		for _, r := range []*Reader[int64]{r, other} {
			eventually(t, "the loss is said", func() bool {
				a := get(t, r) // never an error
				return a.Value == 1 && a.Status.Detail == DetailRedisLost
			})
		}
		must(t, b.client.Del(t.Context(), key).Err())
		eventually(t, "a purge afterwards counts", func() bool {
			_, err := r.Get(t.Context())
			return err != nil
		})
	})
}

func TestALossIsNotNoticedWhileTheCMSIsWell(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	_, r := replica(t, server.URL(), options(src))
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

// TestWhatIsPutBackIsNeverPutOverAnythingNewer restores older copies and newer ones than Redis
// holds, and what was purged after the lease was taken that would put it back.
func TestWhatIsPutBackIsNeverPutOverAnythingNewer(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		h := lease.New("vitrine:", "banners", "test", time.Hour)
		now := time.Now().UnixMilli()
		acquire := func() lease.Lease {
			t.Helper()
			l, err := h.Acquire(t.Context(), b.client, lease.Request{Token: "test/1", Length: time.Minute, TTL: time.Minute})
			must(t, err)
			if l.Outcome != lease.Granted {
				t.Fatalf("no lease: %+v", l)
			}
			return l
		}
		restore := func(l lease.Lease, version, fetched int64, outcome lease.Outcome, want bool) {
			t.Helper()
			doc := lease.Document{ETag: ETag(body(version)), Body: body(version), FetchedAt: fetched, ChangedAt: fetched}
			got, restored, err := h.Release(t.Context(), b.client, l, lease.Word{Keep: time.Hour, Lost: &doc})
			must(t, err)
			if got != outcome || restored != want {
				t.Errorf("version %d: %s, restored: %t; want %s, %t", version, got, restored, outcome, want)
			}
		}
		restore(acquire(), 2, now-2000, lease.Released, true)
		restore(acquire(), 1, now-3000, lease.Released, false)
		restore(acquire(), 3, now-1000, lease.Released, true)
		restore(lease.Lease{Token: "elsewhere/1"}, 4, now-500, lease.Lost, false) // while nobody fetches, or somebody else
		if got := b.client.HGet(t.Context(), key, "body").Val(); got != string(body(3)) {
			t.Errorf("Redis holds %s", got)
		}
		l := acquire()
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		restore(l, 5, now-500, lease.Soft, false)
		l = acquire()
		must(t, b.client.Del(t.Context(), key).Err())
		restore(l, 6, now-400, lease.Lost, false)
		if n := b.client.Exists(t.Context(), key).Val(); n != 0 {
			t.Error("what was purged is back")
		}
	})
}

// TestAPurgeWhileCutOffIsOne has the server live on: what is gone then was purged, also with a
// flush.
func TestAPurgeWhileCutOffIsOne(t *testing.T) {
	for name, purge := range map[string]func(*testing.T, *redistest.Server) error{
		"DEL":      func(t *testing.T, s *redistest.Server) error { return s.Client().Del(t.Context(), key).Err() },
		"FLUSHALL": func(t *testing.T, s *redistest.Server) error { return s.Client().FlushAll(t.Context()).Err() },
		"DEL, and a restart with what is left": func(t *testing.T, s *redistest.Server) error {
			err := s.Client().Del(t.Context(), key).Err()
			s.Restart()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			way := newRelay(t, server.Addr)
			src := newSource()
			_, r := replica(t, way.url(), options(src))
			warm(t, r)
			src.fail(errDown)
			way.cut()
			eventually(t, "it is noticed", func() bool { return get(t, r).Status.Detail == DetailRedisAway })
			must(t, purge(t, server))
			way.heal()
			eventually(t, "the purge counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
		})
	}
}

// TestAnOwnWriteWithdrawsNoCopy has Redis die after an own lease was announced, and before anybody
// could look at what it was, with the CMS away; and then the same with a purge.
func TestAnOwnWriteWithdrawsNoCopy(t *testing.T) {
	for name, purged := range map[string]bool{"own": false, "own and then a purge": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			src := newSource()
			o := options(src)
			_, r := replica(t, server.URL(), o)
			warm(t, r)
			r.o.TTL = time.Millisecond // it is due
			src.fail(errDown)
			lost := &asking[int64]{done: make(chan struct{}), err: errDown}
			r.mu.Lock()
			r.asking = lost // a look that does not come back
			r.mu.Unlock()
			mark := r.watched.Mark()
			eventually(t, "the lease is given", func() bool {
				l, _, err := r.acquire(t.Context())
				must(t, err)
				return l.Outcome == lease.Granted
			})
			eventually(t, "the lease is announced", func() bool { return r.watched.Changed(&mark) })
			if purged {
				mark = r.watched.Mark()
				must(t, server.Client().Del(t.Context(), key).Err())
				eventually(t, "the purge is announced", func() bool { return r.watched.Changed(&mark) })
			}
			server.Kill()
			r.mu.Lock()
			r.asking = nil
			r.mu.Unlock()
			close(lost.done)
			eventually(t, "Redis is away", func() bool {
				a, err := r.Get(t.Context())
				switch {
				case purged && err == nil:
					t.Fatalf("what was purged is served: %+v", a.Status)
				case !purged && (err != nil || a.Value != 1):
					t.Fatalf("got %+v, %v", a, err)
				}
				return purged || a.Status.Detail == DetailRedisAway
			})
			if s := r.Snapshot(); (s.State == StateMissing) != purged {
				t.Errorf("the status says %s", s.State)
			}
		})
	}
}
