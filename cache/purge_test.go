package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// fleet is so many replicas on the URL, each with a store of its own.
func fleet(t testing.TB, url string, n int, o ReaderOptions[int64]) (readers []*Reader[int64]) {
	t.Helper()
	for range n {
		_, r := replica(t, url, o)
		readers = append(readers, r)
	}
	return readers
}

func median(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }

// TestPurgeReachesTheLastReplicaWithin50ms measures, of a fleet that does nothing else, how long
// after a purge was acknowledged the last replica begins to answer with the new version.
func TestPurgeReachesTheLastReplicaWithin50ms(t *testing.T) {
	server, src := redistest.Start(t), newSource()
	readers, client := fleet(t, server.URL(), 4, options(src)), server.Client()
	// Who does not wait is given what memory holds, or nothing: so one goroutine can watch all
	// replicas.
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	var took, older []time.Duration
	for range 50 {
		for _, r := range readers {
			warm(t, r)
		}
		want := src.version.Add(1)
		must(t, client.Del(t.Context(), key).Err())
		acked := time.Now()
		var last, oldest time.Duration
		for old := slices.Clone(readers); len(old) > 0; {
			old = slices.DeleteFunc(old, func(r *Reader[int64]) bool {
				asked := time.Since(acked)
				if a, err := r.Get(hurried); err == nil && a.Value < want {
					oldest = asked
					return false
				}
				last = asked
				return true
			})
		}
		took, older = append(took, last), append(older, oldest)
	}
	t.Logf("from the acknowledgement until no replica can answer with the old version: half of them %v, at most %v", median(took), slices.Max(took))
	// How long nobody asked is the machine's doing; that somebody asked and was given the old
	// version is the cache's.
	if worst := slices.Max(older); worst > bound {
		t.Errorf("asked for %v after the purge, and the old version came; want none after %v", worst, bound)
	}
}

// TestSoftPurgeIsRefreshedAtOnce has nobody read but those who look for its end.
func TestSoftPurgeIsRefreshedAtOnce(t *testing.T) {
	server, src := redistest.Start(t), newSource()
	readers := fleet(t, server.URL(), 4, options(src))
	var took []time.Duration
	elapsed := testkit.Stopwatch(t)
	for range 10 {
		for _, r := range readers {
			warm(t, r)
		}
		want := src.version.Add(1)
		must(t, server.Client().HSet(t.Context(), key, "fresh_until", 0).Err())
		began := elapsed()
		for _, r := range readers {
			until(t, r, "the new version", func(a Answer[int64]) bool { return a.Value == want && a.Status.Detail == DetailMemory })
		}
		took = append(took, elapsed()-began)
	}
	if usual := median(took); usual > bound {
		t.Errorf("usually %v, want %v", usual, bound)
	}
}

// TestAtMostOneFetchPerTTL, whether copies may be served past their freshness, or expire in Redis.
func TestAtMostOneFetchPerTTL(t *testing.T) {
	t.Parallel()
	const ttl, ttls, replicas = 100 * time.Millisecond, 12, 4
	for name, stale := range map[string]time.Duration{"copies stay": time.Minute, "copies expire": 0} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			src.latency = 10 * time.Millisecond
			o := options(src)
			o.TTL, o.StaleWhileRevalidate, o.StaleIfError = ttl, stale, stale
			began := time.Now()
			busy(t, ttls*ttl, fleet(t, server.URL(), replicas, o)...)
			lasted, times := time.Since(began), src.times()
			if most := int(lasted/ttl) + 1; len(times) > most || len(times) < ttls/2 || src.most.Load() != 1 {
				t.Errorf("%d fetches in %v, at most %d at once", len(times), lasted, src.most.Load())
			}
			for i := 1; i < len(times); i++ {
				if apart := times[i].Sub(times[i-1]); apart < ttl-time.Millisecond { // Redis's times are whole milliseconds
					t.Errorf("two fetches began %v apart, want a TTL at least", apart)
				}
			}
		})
	}
}

func TestPurgeUnderLoadMakesExactlyOneFetch(t *testing.T) {
	t.Parallel()
	purges := maps.Clone(removals)
	purges["HSET"] = func(t *testing.T, b backend) error { return b.client.HSet(t.Context(), key, "fresh_until", 0).Err() }
	for kind, purge := range purges {
		t.Run(kind, func(t *testing.T) {
			b, src := realServer(t), newSource()
			src.latency = 5 * time.Millisecond
			readers := fleet(t, b.url, 4, options(src))
			var load sync.WaitGroup
			load.Go(func() { busy(t, time.Second, readers...) })
			defer load.Wait()
			settled := func() bool {
				for _, r := range readers {
					if a := get(t, r); a.Value != src.version.Load() || a.Status.Detail != DetailMemory {
						return false
					}
				}
				return true
			}
			eventually(t, "all hold it", settled)
			for range 4 {
				before := src.loads.Load()
				src.version.Add(1)
				must(t, purge(t, b))
				eventually(t, "all hold the new version", settled)
				if n := src.loads.Load() - before; n != 1 {
					t.Errorf("%d fetches after %s, want one", n, kind)
				}
			}
		})
	}
}

// TestCopyReadBeforeAPurgeIsNotAdmittedAfterIt holds up what a replica makes of a version: after it was
// read from Redis, before it is admitted to memory.
func TestCopyReadBeforeAPurgeIsNotAdmittedAfterIt(t *testing.T) {
	server, src := startRedis(t), newSource()
	first := one(t, server.URL(), src, nil)
	saying(t, first, "1 memory")
	entered, open := make(chan struct{}, 10), make(chan struct{})
	second := one(t, server.URL(), src, func(o *ReaderOptions[int64]) {
		o.Prepare = func(d *Document) (int64, error) {
			version, err := prepare(d)
			if version == 1 {
				entered <- struct{}{}
				<-open
			}
			return version, err
		}
	})
	before := getLater(t, second)
	testkit.Receive(t, entered)
	src.version.Store(2)
	must(t, server.Client().Del(t.Context(), key).Err())
	saying(t, first, "2 memory")
	poll.Sleep(t.Context(), bound)
	var after []<-chan Answer[int64]
	for range 50 {
		after = append(after, getLater(t, second))
	}
	close(open)
	testkit.Receive(t, before) // either will do
	for _, got := range after {
		if a := testkit.Receive(t, got); a.Value != 2 {
			t.Errorf("asked after the purge: %+v", a)
		}
	}
}

// TestPurgeDuringAFetchIsNotHeldUpByIt has a load that cannot be ended: its answer is on the way.
func TestPurgeDuringAFetchIsNotHeldUpByIt(t *testing.T) {
	server, deaf, src := startRedis(t), newSource(), newSource(2)
	release := deaf.hold()
	defer release()
	slow := getLater(t, one(t, server.URL(), LoaderFunc(func(_ context.Context, key string, held *Document) (Loaded, error) {
		return deaf.Load(context.WithoutCancel(t.Context()), key, held)
	}), nil))
	testkit.Receive(t, deaf.entered)
	must(t, server.Client().Del(t.Context(), key).Err())
	saying(t, one(t, server.URL(), src, nil), "2 memory") // while the first's load still goes on
	release()
	if got := testkit.Receive(t, slow); got.Value != 2 || deaf.loads.Load() != 1 {
		t.Errorf("who waited for the fetch that the purge made void got %+v, after %d loads", got, deaf.loads.Load())
	}
}

// TestWhatWasLoadedAloneIsNotTrustedOnceRedisIsBack has a copy in memory that Redis never held, so
// that purging it removes nothing.
func TestWhatWasLoadedAloneIsNotTrustedOnceRedisIsBack(t *testing.T) {
	server, src := startRedis(t), newSource()
	r := one(t, server.URL(), src, nil)
	eventually(t, "it polls", r.store.Answering)
	server.Pause()
	saying(t, r, "1 redis-away")
	server.Resume()
	eventually(t, "Redis is back", func() bool { return r.store.Up() && r.store.Answering() })
	src.version.Store(2)
	must(t, server.Client().Del(t.Context(), key).Err())
	poll.Sleep(t.Context(), bound)
	eventually(t, "the new version", func() bool {
		a := get(t, r)
		if a.Value != 2 && a.Status.Detail != DetailRedisAway {
			t.Fatalf("%+v", a)
		}
		return a.Value == 2 && a.Status.Detail == DetailMemory
	})
}
