package coherence

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// purges is how many a campaign makes here, at the least.
const purges = 120

func TestNoReplicaServesWhatWasPurged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := NewOrigins(5*time.Millisecond, Keys...)
	nodes := StartFleet(t, server.URL(), 4, origins, Setup{})
	campaign(t, &Campaign{Origins: origins, Replicas: Named(nodes), Purge: Operator(server.Client()), Kinds: All})
}

func campaign(t *testing.T, c *Campaign) {
	t.Helper()
	c.Begin(t)
	testkit.Within(t, 2*time.Minute, "the purges are made", func() bool { return c.Acked.Load() >= purges || t.Failed() })
	v := c.End()
	c.Report(t, v)
	c.MostlyHeld(t, v)
}

// TestEmbeddedStoreIsAsCoherent is the same against the store inside this process.
func TestEmbeddedStoreIsAsCoherent(t *testing.T) {
	t.Parallel()
	origins := NewOrigins(5*time.Millisecond, Keys...)
	store, err := embedded.Start("127.0.0.1:0", nil)
	must(t, err)
	t.Cleanup(store.Close)
	nodes := StartFleet(t, store.URL(), 4, origins, Setup{Timeout: Patient})
	client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	campaign(t, &Campaign{Origins: origins, Replicas: Named(nodes), Purge: Operator(client), Kinds: All})
}

// TestPurgeReachesTheLastReplicaWithin50ms measures, of a fleet that does nothing else, how long
// after a purge was acknowledged the last replica begins to answer with the new version.
func TestPurgeReachesTheLastReplicaWithin50ms(t *testing.T) {
	server := redistest.Start(t)
	origins := NewOrigins(0, "banners")
	nodes := StartFleet(t, server.URL(), 4, origins, Setup{Options: Long})
	client := server.Client()
	// Who does not wait is given what memory holds, or nothing: so one goroutine can watch all
	// replicas.
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	var took, older Delays
	for range 50 {
		for _, n := range nodes {
			eventually(t, "memory", func() bool {
				a, err := n.Readers["banners"].Get(t.Context())
				return err == nil && a.Status.Detail == cache.DetailMemory
			})
		}
		want := origins["banners"].Version.Add(1)
		must(t, client.Del(t.Context(), Prefix+"banners").Err())
		acked := time.Now()
		var last, oldest time.Duration
		for old := slices.Clone(nodes); len(old) > 0; {
			old = slices.DeleteFunc(old, func(n *Node) bool {
				asked := time.Since(acked)
				if a, err := n.Readers["banners"].Get(hurried); err == nil && a.Value < want {
					oldest = asked
					return false
				}
				last = asked
				return true
			})
		}
		took, older = append(took, last), append(older, oldest)
	}
	t.Logf("from the acknowledgement until no replica can answer with the old version: %v", took)
	// How long nobody asked is the machine's doing; that somebody asked and was given the old
	// version is the cache's.
	if worst := older.Quantile(1); worst > Bound {
		t.Errorf("asked for %v after the purge, and the old version came; want none after %v", worst, Bound)
	}
}

// TestSoftPurgeIsRefreshedAtOnce has nobody read but those who look for the end of it: the old
// version is said to be stale in the meantime, and the refresh takes the time of a fetch and little
// more.
func TestSoftPurgeIsRefreshedAtOnce(t *testing.T) {
	server := redistest.Start(t)
	const latency = 20 * time.Millisecond
	origins := NewOrigins(0, "banners")
	slow := cache.LoaderFunc(func(ctx context.Context, key string, held *cache.Document) (cache.Loaded, error) {
		loaded, err := origins["banners"].Loader("").Load(ctx, key, held)
		poll.Sleep(ctx, latency)
		return loaded, err
	})
	nodes := StartFleet(t, server.URL(), 4, origins, Setup{Options: func(key string, o *cache.ReaderOptions[int64]) {
		Long(key, o)
		o.Loader = slow
	}})
	client := server.Client()
	holds := func(n *Node, version int64) bool {
		a, err := n.Readers["banners"].Get(t.Context())
		must(t, err)
		return a.Value == version && a.Status.Detail == cache.DetailMemory
	}
	var took, worked Delays
	elapsed := testkit.Stopwatch(t)
	for i := range int64(10) {
		for _, n := range nodes {
			eventually(t, "memory", func() bool { return holds(n, i+1) })
		}
		version := origins["banners"].Version.Add(1)
		must(t, client.HSet(t.Context(), Prefix+"banners", "fresh_until", 0).Err())
		acked, at := time.Now(), elapsed()
		for _, n := range nodes {
			eventually(t, "the new version", func() bool { return holds(n, version) })
		}
		took, worked = append(took, time.Since(acked)-latency), append(worked, elapsed()-at-latency)
	}
	t.Logf("from the acknowledgement until all replicas hold the new version, less the %v of the fetch: %v", latency, took)
	// How soon something is done depends on the machine too; that nothing wrong is done meanwhile
	// does not.
	if usual := worked.Quantile(0.5); usual > Bound {
		t.Errorf("usually %v, want %v", usual, Bound)
	}
}

// TestRestoresAndPurgesAtRandomMoments is a short run; .ci/long/coherence has a long one.
func TestRestoresAndPurgesAtRandomMoments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := NewOrigins(3*time.Millisecond, "catalogue")
	nodes := StartFleet(t, server.URL(), 3, origins, Setup{Timeout: Patient})
	c := &Restores{Key: "catalogue", Origin: origins["catalogue"], Nodes: nodes, Client: server.Client()}
	c.Run(t, 80)
}

// TestACheckerOfRestoresFindsWhatMustNotBe gives it answers that a purge and a restore forbid.
func TestACheckerOfRestoresFindsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	c := &Restores{done: []deed{
		{kind: "hard", version: 5, sent: at(100), acked: at(101)},
		{kind: "restore", version: 2, sent: at(300), acked: at(301)},
		{kind: "hard", version: 6, sent: at(500), acked: at(501)},
		{kind: "restore", version: 3, sent: at(700), overtaken: true},
		{kind: "hard", version: 7, sent: at(701), acked: at(702)},
	}}
	answer := func(version int64, ms int, detail string) given {
		g := given{version: version, asked: at(ms), ended: at(ms + 1)}
		g.status.Detail = detail
		return g
	}
	for _, a := range []struct {
		given
		fine bool
	}{
		{answer(4, 140, "memory"), true}, {answer(4, 152, "memory"), false}, {answer(5, 152, "memory"), true},
		{answer(2, 250, "restored"), false}, {answer(2, 310, "restored"), true}, {answer(5, 310, "memory"), true},
		{answer(5, 360, "memory"), false}, {answer(2, 360, "memory"), false}, {answer(2, 360, "restored"), true},
		{answer(2, 540, "restored"), true}, {answer(2, 560, "restored"), false}, {answer(6, 560, "memory"), true},
		{answer(3, 740, "restored"), true}, {answer(3, 760, "restored"), false},
	} {
		if wrong := c.wrong(a.given); (wrong == "") != a.fine {
			t.Errorf("%+v: %q", a.given, wrong)
		}
	}
}

func TestAtMostOneFetchPerResourceAndTTL(t *testing.T) {
	t.Parallel()
	const (
		ttl      = 100 * time.Millisecond
		ttls     = 10
		requests = 20_000
		replicas = 4
		readers  = 4 // for each replica and resource
	)
	server := redistest.Start(t)
	origins := NewOrigins(10*time.Millisecond, Keys...)
	nodes := StartFleet(t, server.URL(), replicas, origins, Setup{Timeout: Patient, Options: func(_ string, o *cache.ReaderOptions[int64]) {
		o.TTL, o.StaleWhileRevalidate, o.StaleIfError = ttl, time.Minute, time.Hour
	}})
	each := requests/(replicas*len(Keys)*readers) + 1
	began := time.Now()
	var all sync.WaitGroup
	for _, n := range nodes {
		for _, key := range Keys {
			for range readers {
				all.Go(func() {
					tick := time.NewTicker(ttl * ttls / time.Duration(each/10)) // bursts of ten, spread over the TTLs
					defer tick.Stop()
					for i := range each {
						if _, _, err := n.Get(t.Context(), key); err != nil {
							t.Errorf("%s: %v", key, err)
							return
						}
						if i%10 == 9 {
							<-tick.C
						}
					}
				})
			}
		}
	}
	all.Wait()
	lasted := time.Since(began)
	if lasted < ttls*ttl {
		t.Errorf("it lasted %v, less than ten TTLs", lasted)
	}
	for _, key := range Keys {
		o := origins[key]
		times := o.Began()
		t.Logf("%s: %d fetches for %d requests in %v, %.1f TTLs", key, len(times), requests/len(Keys), lasted.Round(time.Millisecond), float64(lasted)/float64(ttl))
		if most := int(lasted/ttl) + 1; len(times) > most {
			t.Errorf("%s: %d fetches in %v, want %d at the most", key, len(times), lasted, most)
		}
		if len(times) < ttls/2 {
			t.Errorf("%s: %d fetches: it is not being renewed", key, len(times))
		}
		for i := 1; i < len(times); i++ {
			if apart := times[i].Sub(times[i-1]); apart < ttl-time.Millisecond { // Redis's times are whole milliseconds
				t.Errorf("%s: two fetches began %v apart, want a TTL at least", key, apart)
			}
		}
		if most := o.Most.Load(); most != 1 {
			t.Errorf("%s: %d fetches under way at once", key, most)
		}
	}
}

func TestPurgeUnderLoadMakesExactlyOneFetch(t *testing.T) {
	t.Parallel()
	for _, kind := range All {
		t.Run(kind, func(t *testing.T) {
			server := redistest.Start(t)
			origins := NewOrigins(5*time.Millisecond, Keys...)
			nodes := StartFleet(t, server.URL(), 4, origins, Setup{Timeout: Patient, Options: Long})
			c := &Campaign{Origins: origins, Replicas: Named(nodes), Readers: 4, Purge: Operator(server.Client()), Kinds: nil}
			c.Begin(t) // reads only: what is purged, and when, is decided here
			settled := func() bool {
				for _, n := range nodes {
					for _, key := range Keys {
						version, status, err := n.Get(t.Context(), key)
						if err != nil || version != origins[key].Version.Load() || status.Detail != cache.DetailMemory {
							return false
						}
					}
				}
				return true
			}
			eventually(t, "all hold everything", settled)
			for i := range 6 {
				key := Keys[i%len(Keys)]
				before := map[string]int64{}
				for _, k := range Keys {
					before[k] = origins[k].Loads.Load()
				}
				origins[key].Version.Add(1)
				purged, err := c.Purge(t.Context(), kind, key)
				must(t, err)
				eventually(t, "all hold the new version", settled)
				if kind == "FLUSHDB" { // of the others the version is the same: wait for their fetch itself
					for _, k := range purged {
						eventually(t, "all are fetched", func() bool { return origins[k].Loads.Load() > before[k] })
					}
					eventually(t, "all hold everything", settled)
				}
				want := map[string]int64{}
				for _, k := range purged {
					want[k] = 1
				}
				for _, k := range Keys {
					if n := origins[k].Loads.Load() - before[k]; n != want[k] {
						t.Errorf("%d fetches of %s after %s of %v, want %d", n, k, kind, purged, want[k])
					}
				}
			}
			c.End()
		})
	}
}
