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

// TestTheNewestLostCopyIsPutBack has two replicas that hold different versions, as after each has
// loaded for itself. The one with the older puts its own back first, when the other has already seen
// that Redis is empty.
func TestTheNewestLostCopyIsPutBack(t *testing.T) {
	server := redistest.Start(t)
	older, newer := newSource(), newSource()
	newer.version.Store(2)
	_, a := replica(t, server.URL(), options(older))
	warm(t, a)
	server.Kill()
	b := alone(t, server.URL(), options(newer))
	if got := get(t, b); got.Value != 2 || got.Status.Detail != DetailRedisAway {
		t.Fatalf("got %+v", got)
	}
	older.fail(errDown)
	newer.fail(errDown)
	server.Restart()
	for _, r := range []*Reader[int64]{a, b} {
		eventually(t, "it is back", func() bool { return r.watched.Up() && r.watched.Listening() })
		if e, err := r.look(); err != nil || !e.lostOnly() {
			t.Fatalf("the empty Redis: %+v, %v", e, err)
		}
	}
	held := func() string { return server.Client().HGet(t.Context(), key, "body").Val() }
	eventually(t, "the older copy is put back", func() bool { get(t, a); return held() == string(body(1)) })
	eventually(t, "the newer copy is put back", func() bool {
		if got := get(t, b); got.Value != 2 {
			t.Fatalf("the newer copy is given up: %+v", got)
		}
		return held() == string(body(2))
	})
	eventually(t, "all have it", func() bool { return get(t, a).Value == 2 })
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "a purge ends both", func() bool {
		_, errA := a.Get(t.Context())
		_, errB := b.Get(t.Context())
		return errA != nil && errB != nil
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
			_, r := replica(t, server.URL(), options(src))
			warm(t, r)
			src.fail(errDown)
			looks := holdLooks(t, r)
			r.o.TTL = time.Millisecond // it is due
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
			looks()
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
