package cache

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestAPurgeWhileAReplicaStartsCutOffCounts has a replica start while it cannot reach Redis, the
// document be purged, and the CMS fail.
func TestAPurgeWhileAReplicaStartsCutOffCounts(t *testing.T) {
	server, src := startRedis(t), newSource()
	way := redistest.NewRelay(t, server.Addr)
	_, a := replica(t, server.URL(), options(src))
	warm(t, a)
	way.Cut()
	b := alone(t, way.URL(), options(src))
	if got := get(t, b); got.Status.Detail != DetailRedisAway {
		t.Fatalf("%+v", got.Status)
	}
	src.fail(errDown)
	must(t, server.Client().Del(t.Context(), key).Err())
	way.Heal()
	eventually(t, "the other is back", func() bool { return b.watched.Up() && b.watched.Listening() })
	for _, r := range []*Reader[int64]{a, b} {
		eventually(t, "the purge counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
	}
	for range 20 {
		if got, err := a.Get(t.Context()); err == nil {
			t.Fatalf("purged, and back: %+v", got)
		}
		watch.Sleep(t.Context(), 10*time.Millisecond)
	}
}

// TestAnothersLeaseWithdrawsNothing has another replica take leases and give them back while the
// CMS is down, and the link be slow, half open or cut, or Redis hang, just then.
func TestAnothersLeaseWithdrawsNothing(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*redistest.Server, *redistest.Relay){
		"slow":      func(_ *redistest.Server, way *redistest.Relay) { way.Slow(450 * time.Millisecond) },
		"half open": func(_ *redistest.Server, way *redistest.Relay) { way.Hole() },
		"cut":       func(_ *redistest.Server, way *redistest.Relay) { way.Cut() },
		"hung":      func(s *redistest.Server, _ *redistest.Relay) { s.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			way := redistest.NewRelay(t, server.Addr)
			o := options(src)
			o.TTL, o.StaleWhileRevalidate = 50*time.Millisecond, 0
			_, r := replica(t, way.URL(), o)
			warm(t, r)
			src.fail(errDown)
			client := server.Client()
			must(t, client.HSet(t.Context(), key, "fresh_until", 1).Err())
			received(t, r)
			eventually(t, "the failure is known", func() bool { return get(t, r).Status.Detail == DetailIfError && r.Snapshot().Coherent }) // else the copy is dropped
			holding := func() {
				var l lease.Lease
				for l.Outcome != lease.Granted { // the replica may be the first to take it
					must(t, client.HDel(t.Context(), books, "lease").Err())
					var err error
					l, err = another().Acquire(t.Context(), client, lease.Request{Token: "another/1", Length: time.Minute, TTL: time.Millisecond, Source: "test"})
					must(t, err)
				}
				if l.Wrote {
					t.Fatalf("%+v", l)
				}
				_, err := another().Release(t.Context(), client, l, lease.Word{Failure: lease.Failure{Count: 1}, Pause: time.Millisecond})
				must(t, err)
			}
			if name != "hung" {
				trouble(server, way)
			}
			holding()
			if name == "hung" {
				trouble(server, way)
			}
			for began := time.Now(); time.Since(began) < 1500*time.Millisecond; watch.Sleep(t.Context(), 5*time.Millisecond) {
				if a := get(t, r); a.Value != 1 { // never an error
					t.Fatalf("%+v", a)
				}
				if name == "slow" {
					holding()
				}
			}
		})
	}
}

// TestAnOlderSnapshotIsALoss has Redis come back from a snapshot that was made between a purge and
// the fill that followed, or before the document was stored at all.
func TestAnOlderSnapshotIsALoss(t *testing.T) {
	t.Parallel()
	for name, purged := range map[string]bool{"from before the first document": false, "from between a purge and its fill": true} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			client := server.Client()
			l := acquire(t, client, time.Minute)
			if purged {
				fill(t, client, l, 1)
				must(t, client.Del(t.Context(), key).Err())
				l = acquire(t, client, time.Minute)
			}
			must(t, client.Save(t.Context()).Err())
			fill(t, client, l, 2)
			_, r := replica(t, server.URL(), options(src))
			warm(t, r)
			src.fail(errDown)
			server.Restart()
			eventually(t, "the loss is said", func() bool {
				a := get(t, r) // never an error
				return a.Value == 2 && a.Status.Detail == DetailRedisLost
			})
			must(t, client.Del(t.Context(), key).Err())
			eventually(t, "a purge afterwards counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
		})
	}
}

// TestAValueOfAnotherTypeCountsAsAPurge has somebody write a string over the document.
func TestAValueOfAnotherTypeCountsAsAPurge(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		for _, name := range []string{books, key} {
			warm(t, r)
			src.version.Add(1)
			must(t, b.client.Del(t.Context(), name).Err())
			must(t, b.client.Set(t.Context(), name, "a string", 0).Err())
			if name == books { // which purges nothing
				must(t, b.client.Del(t.Context(), key).Err())
			}
			eventually(t, "the next version is stored", func() bool {
				a := get(t, r)
				return a.Value == src.version.Load() && a.Status.Detail == DetailMemory && b.client.HGet(t.Context(), key, "seq").Err() == nil
			})
		}
	})
}

// TestADocumentLoadedUnderALeaseIsKept has Redis die, or refuse, after the lease is announced and
// before the fill.
func TestADocumentLoadedUnderALeaseIsKept(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*testing.T, *redistest.Server){
		"dies":    func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"refuses": func(t *testing.T, s *redistest.Server) { refusals["NOREPLICAS"](t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			var r *Reader[int64]
			_, r = replica(t, server.URL(), options(LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
				loaded, err := src.Load(ctx, k, held)
				if src.loads.Load() == 1 {
					eventually(t, "the attendant has looked at the stub", func() bool {
						e := r.memory.Load()
						return e != nil && e.place.Holds == lease.Stub && !r.watched.Changed(&e.mark)
					})
					trouble(t, server)
				}
				return loaded, err
			})))
			if a := get(t, r); a.Value != 1 {
				t.Fatalf("%+v", a)
			}
			src.fail(errDown)
			for range 10 {
				get(t, r)
			}
			// It is due once where Redis was too slow to refuse it, so that it counts as loaded alone.
			if n := src.loads.Load(); n > 2 {
				t.Errorf("%d loads, want 2 at most", n)
			}
		})
	}
}

// TestALookFromBeforeARefusedLoadDoesNotReplaceIt has a look begin before a load that Redis refuses
// to store, and return after it.
func TestALookFromBeforeARefusedLoadDoesNotReplaceIt(t *testing.T) {
	server, src := startRedis(t), newSource()
	var r *Reader[int64]
	late := func() *entry[int64] { return nil }
	o := options(LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		if src.loads.Load() > 0 {
			late = earlyLook(t, r)
		}
		return src.Load(ctx, k, held)
	}))
	o.TTL, o.StaleWhileRevalidate = 100*time.Millisecond, 0
	_, r = replica(t, server.URL(), o)
	warm(t, r)
	refusals["NOREPLICAS"](t, server)
	src.version.Store(2)
	eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
	late()
	if e := r.memory.Load(); e.value != 2 {
		t.Errorf("memory holds version %d", e.value)
	}
}

// TestALookFromBeforeARefusedLoadIsNotServed has a look read Redis before such a load and return after
// it, and a request that saw the copy from before it ask for another load.
func TestALookFromBeforeARefusedLoadIsNotServed(t *testing.T) {
	server, src := startRedis(t), newSource(2)
	fly := func(r *Reader[int64]) {
		f, _ := r.fly(t.Context())
		testkit.Receive(t, f.done)
	}
	var r *Reader[int64]
	var read atomic.Bool
	var end func()
	o := options(src)
	o.Prepare = func(d *Document) (int64, error) {
		if string(d.Body) == string(body(1)) && !read.Swap(true) {
			end()
			fly(r)
		}
		return prepare(d)
	}
	_, r = replica(t, server.URL(), o)
	end = holdLooks(t, r, nil, errDown)
	fill(t, server.Client(), acquire(t, server.Client(), time.Minute), 1)
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", 1).Err())
	refusals["NOREPLICAS"](t, server)
	e, err := r.look()
	must(t, err)
	if e.value != 2 || e.origin != originRefused {
		t.Errorf("served: %+v", e)
	}
	if fly(r); src.loads.Load() != 1 {
		t.Errorf("loaded %d times within its TTL", src.loads.Load())
	}
}

// TestTheOnlyCopySurvivesWhatIsNoPurge has Redis full from the start and the CMS down, so that a
// replica holds the only copy, while connections are killed and another database is flushed.
func TestTheOnlyCopySurvivesWhatIsNoPurge(t *testing.T) {
	server, src := startRedis(t, "--maxmemory", "1"), newSource()
	var purges int
	store, r := replicaWith(t, Options{URL: server.URL(), Events: Events{Purged: func(string, string) { purges++ }}}, options(src))
	eventually(t, "it is refused", func() bool { return get(t, r).Status.Detail == DetailRedisRefused })
	src.fail(errDown)
	client := server.Client()
	for name, trouble := range map[string]func() error{
		"connections killed": func() error {
			for _, c := range regexp.MustCompile(`(?m)^id=(\d+) `).FindAllStringSubmatch(client.ClientList(t.Context()).Val(), -1) {
				_ = client.ClientKillByFilter(t.Context(), "ID", c[1], "SKIPME", "yes").Err()
			}
			return nil
		},
		"another database flushed": func() error {
			_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Do(t.Context(), "select", 5)
				p.FlushDB(t.Context())
				p.FlushDB(t.Context()) // before anybody has looked
				p.Do(t.Context(), "select", 0)
				return nil
			})
			return err
		},
	} {
		must(t, trouble())
		for began := time.Now(); time.Since(began) < 400*time.Millisecond; watch.Sleep(t.Context(), 5*time.Millisecond) {
			if a, err := r.Get(t.Context()); err != nil || a.Value != 1 {
				t.Fatalf("%s: %+v, %v", name, a, err)
			}
		}
	}
	must(t, store.Close())
	if purges > 0 {
		t.Errorf("%d purges are counted, and nobody purged", purges)
	}
}

// TestALeaseLastsAsItsHolderSays has a replica with a long upstream timeout, and one with a
// document of 40 MiB, hold the lease.
func TestALeaseLastsAsItsHolderSays(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		o := options(src)
		o.FetchTimeout = 100 * time.Second
		_, long := replica(t, b.url, o)
		long.size.Store(40 << 20)
		o.FetchTimeout = 2 * time.Second
		_, short := replica(t, b.url, o)
		first, release := loading(t, src, long)
		if l, _, err := short.acquire(t.Context()); err != nil || l.Outcome != lease.Held || l.Left < 100*time.Second+(80<<20)*time.Second/watch.Slowest {
			t.Errorf("%s, for %v: %v", l.Outcome, l.Left, err)
		}
		release()
		if a := testkit.Receive(t, first); !a.Status.Stored || src.loads.Load() != 1 {
			t.Errorf("%+v after %d loads", a.Status, src.loads.Load())
		}
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 1).Err())
		must(t, b.client.HSet(t.Context(), books, "lease", "x", "lease_until", time.Now().Add(10*time.Hour).UnixMilli(), "lease_length", 36_000_000, "lease_seq", 2).Err())
		if a := get(t, short); a.Status.Stale && src.loads.Load() > 2 {
			t.Errorf("%+v", a.Status)
		}
		eventually(t, "a lease beyond an hour is garbage", func() bool { get(t, short); return src.loads.Load() == 2 })
	})
}

// TestABrokenConnectionIsNoRefusal cuts the connection on which a big document is stored.
func TestABrokenConnectionIsNoRefusal(t *testing.T) {
	server, src := startRedis(t), newSource()
	way := redistest.NewRelay(t, server.Addr)
	var log testkit.Buffer
	big := padded(src, 4<<20)
	store, r := replicaWith(t, Options{URL: way.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, options(LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		way.Throttle(8 << 20)
		time.AfterFunc(100*time.Millisecond, func() { way.Cut(); way.Heal() })
		return big.Load(ctx, k, held)
	})))
	if a := get(t, r); a.Value != 1 || a.Status.Detail == DetailRedisRefused {
		t.Errorf("%+v", a.Status)
	}
	if strings.Contains(log.String(), "refuses") || store.Refusing() != "" {
		t.Errorf("refusing: %q\n%s", store.Refusing(), log.String())
	}
}

// TestARefusalIsOfOneResource has room for one document and none for the other: that is said once.
func TestARefusalIsOfOneResource(t *testing.T) {
	var log testkit.Buffer
	store, big := readerWith(t, Options{URL: embeddedURL(t), Logger: slog.New(slog.NewTextHandler(&log, nil))}, options(newSource()))
	small, err := NewReader(store, "rules", options(newSource()))
	must(t, err)
	for range 3 {
		big.accepted("acquire")
		big.refuse("fill", errors.New("OOM"))
		small.accepted("acquire")
		small.accepted("fill")
	}
	if text := log.String(); strings.Count(text, "refuses writes") != 1 || strings.Contains(text, "accepts") || store.Refusing() != "OOM" {
		t.Errorf("refusing: %q\n%s", store.Refusing(), text)
	}
	if big.accepted("fill"); store.Refusing() != "" || !strings.Contains(log.String(), "accepts writes again") {
		t.Error("the end is not said")
	}
}
