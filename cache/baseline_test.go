package cache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/upstream/guard"
)

// halving are options whose guard objects to a version of less than half of the one before.
func halving(src Loader, hold time.Duration) ReaderOptions[int64] {
	o := guarded(src, hold)
	o.Guard = func(before, now int64) guard.Findings {
		if 2*now >= before {
			return nil
		}
		return guard.Findings{{List: "banners", Kind: guard.Shrunk, Before: int(before), After: int(now), Items: int(now), Verdict: guard.ForHold}}
	}
	return o
}

// TestAnOlderVersionCountsForADayAndSinceALossWasTaken has versions that each lose less than half.
func TestAnOlderVersionCountsForADayAndSinceALossWasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		hold     time.Duration
		versions []int64
		then     func(t *testing.T, b backend, s *Store)
		next     int64
		held     bool
	}{
		"it counts": {time.Hour, []int64{100, 80, 60}, func(*testing.T, backend, *Store) {}, 45, true},
		"replaced too long ago": {time.Hour, []int64{100, 80, 60}, func(t *testing.T, b backend, _ *Store) {
			for i, version := range []int64{100, 80} {
				name, at := lease.VersionOf(body(version)), time.Now().Add(-guardReaches-time.Duration(2-i)*time.Minute).UnixMilli()
				_, rest, _ := strings.Cut(b.client.HGet(t.Context(), past, name).Val(), ",")
				must(t, b.client.HSet(t.Context(), past, name, fmt.Sprintf(`{"at":%d,%s`, at, rest)).Err())
			}
			must(t, b.client.HSet(t.Context(), books, "baseline_since", 1).Err())
		}, 45, false},
		"before a hold that expired": {time.Second / 2, []int64{100, 80, 60, 29}, func(*testing.T, backend, *Store) {}, 20, false},
		"before a restore": {time.Hour, []int64{100, 80, 60}, func(t *testing.T, _ backend, s *Store) {
			_, err := s.Restore(t.Context(), "banners", lease.VersionOf(body(80)), time.Second, "a test", nil)
			must(t, err)
		}, 45, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src := newSource()
			s, r := replica(t, b.url, halving(src, c.hold))
			for _, version := range c.versions {
				src.version.Store(version)
				until(t, r, "it is served", func(a Answer[int64]) bool { return a.Value == version })
				eventually(t, "it is in the history", func() bool { return b.client.HExists(t.Context(), past, lease.VersionOf(body(version))).Val() })
			}
			c.then(t, b, s)
			src.version.Store(c.next)
			if c.held {
				until(t, r, "it is held back", isHeld)
				return
			}
			until(t, r, "it is served", func(a Answer[int64]) bool {
				if a.Status.Detail == DetailHeld {
					t.Fatalf("held back: %+v", r.Snapshot().HeldBack)
				}
				return a.Value == c.next
			})
		})
	}
}

// TestTheLaterCopyIsTheBaseline has Redis come back with the document before the one that memory has.
func TestTheLaterCopyIsTheBaseline(t *testing.T) {
	server := startRedis(t)
	redis, src := server.Client(), newSource(0)
	way := redistest.NewRelay(t, server.Addr)
	o := guarded(src, time.Hour)
	o.TTL = 50 * time.Millisecond
	_, r := replica(t, way.URL(), o)
	get(t, r)
	keys, before := []string{key, books}, []string{}
	for _, k := range keys {
		before = append(before, redis.Dump(t.Context(), k).Val())
	}
	src.version.Store(2)
	until(t, r, "the next is stored", func(a Answer[int64]) bool {
		return a.Value == 2 && redis.HGet(t.Context(), key, "body").Val() == string(body(2))
	})
	way.Cut()
	eventually(t, "Redis is unreachable", func() bool { return !r.store.Up() })
	for i, k := range keys {
		must(t, redis.RestoreReplace(t.Context(), k, 0, before[i]).Err())
	}
	src.version.Store(101)
	way.Heal()
	eventually(t, "it is back in Redis", func() bool {
		if a := get(t, r); a.Value != 2 {
			t.Fatalf("version %d is served", a.Value)
		}
		return redis.HGet(t.Context(), key, "body").Val() == string(body(2))
	})
	heldBack(t, r)
}

func TestACopyThatWasNeverStoredIsNoBaseline(t *testing.T) {
	src := newSource(2)
	way := redistest.NewRelay(t, strings.TrimPrefix(embeddedURL(t), "redis://"))
	way.Cut()
	_, r := readerWith(t, Options{URL: way.URL()}, guarded(src, time.Hour))
	get(t, r)
	src.version.Store(101)
	until(t, r, "the next is served", func(a Answer[int64]) bool {
		if r.Snapshot().HeldBack != nil {
			t.Fatal("it is held back")
		}
		return a.Value == 101
	})
}

// TestAnotherSourceIsComparedWithNothing has a deploy of another mapping, while nothing is held back.
func TestAnotherSourceIsComparedWithNothing(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	s, r := replica(t, b.url, guarded(src, time.Hour))
	get(t, r)
	must(t, s.Close())
	src.version.Store(101)
	o := guarded(src, time.Hour)
	o.Source = "another"
	_, r = replica(t, b.url, o)
	until(t, r, "what it makes is served", func(a Answer[int64]) bool {
		if r.Snapshot().HeldBack != nil {
			t.Fatal("it is held back")
		}
		return a.Value == 101
	})
}

func TestAVersionThatCannotBeServedIsNotRestored(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	s, r := replica(t, b.url, described(src))
	change(t, b, src, r, 1, 2)
	before, other := b.client.HGetAll(t.Context(), key).Val(), errors.New("written by another release")
	_, err := s.Restore(t.Context(), "banners", lease.VersionOf(body(1)), time.Hour, "a test", func(d *Document) error {
		if string(d.Body) != string(body(1)) {
			t.Errorf("checked %s", d.Body)
		}
		return other
	})
	if after := b.client.HGetAll(t.Context(), key).Val(); !errors.Is(err, other) || after["seq"] != before["seq"] || after["body"] != before["body"] {
		t.Errorf("%v: %v", err, after)
	}
}

// TestWhatWasNeverStoredIsNoBaseline has Redis refuse what the guard lets pass, before more is lost.
func TestWhatWasNeverStoredIsNoBaseline(t *testing.T) {
	s := startRedis(t)
	src := newSource(2)
	var before sync.Map
	o := guarded(src, time.Hour)
	o.Guard = func(b, now int64) guard.Findings { before.Store(b, now); return nil }
	_, r := replica(t, s.URL(), o)
	warm(t, r)
	refusals["OOM"](t, s)
	for _, version := range []int64{4, 6} {
		src.version.Store(version)
		until(t, r, "it is refused", func(a Answer[int64]) bool { return a.Value == version && a.Status.Detail == DetailRedisRefused })
	}
	if now, wrong := before.Load(int64(4)); wrong {
		t.Errorf("version %d was compared with 4", now)
	}
}
