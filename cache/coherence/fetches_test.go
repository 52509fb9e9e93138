package coherence

import (
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

func TestAtMostOneFetchPerResourceAndTTL(t *testing.T) {
	t.Parallel()
	const (
		ttl      = 200 * time.Millisecond
		ttls     = 10
		requests = 100_000
		replicas = 4
		readers  = 4 // for each replica and resource
	)
	server := redistest.Start(t)
	origins := newOrigins(10*time.Millisecond, keys...)
	nodes := startFleet(t, server.URL(), replicas, origins, setup{timeout: patient, options: func(_ string, o *cache.ReaderOptions[int64]) {
		o.TTL, o.StaleWhileRevalidate, o.StaleIfError = ttl, time.Minute, time.Hour
	}})
	each := requests/(replicas*len(keys)*readers) + 1
	began := time.Now()
	var all sync.WaitGroup
	for _, n := range nodes {
		for _, key := range keys {
			for range readers {
				all.Go(func() {
					tick := time.NewTicker(ttl * ttls / time.Duration(each/10)) // bursts of ten, spread over the TTLs
					defer tick.Stop()
					for i := range each {
						if _, _, err := n.get(t.Context(), key); err != nil {
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
	for _, key := range keys {
		o := origins[key]
		o.mu.Lock()
		times := o.began
		o.mu.Unlock()
		t.Logf("%s: %d fetches for %d requests in %v, %.1f TTLs", key, len(times), requests/len(keys), lasted.Round(time.Millisecond), float64(lasted)/float64(ttl))
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
		if most := o.most.Load(); most != 1 {
			t.Errorf("%s: %d fetches under way at once", key, most)
		}
	}
}

func TestPurgeUnderLoadMakesExactlyOneFetch(t *testing.T) {
	t.Parallel()
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			server := redistest.Start(t)
			origins := newOrigins(5*time.Millisecond, keys...)
			nodes := startFleet(t, server.URL(), 4, origins, setup{timeout: patient, options: long})
			c := &campaign{origins: origins, replicas: named(nodes), readers: 4, purge: operator(server.Client()), kinds: nil}
			c.begin(t) // reads only: what is purged, and when, is decided here
			settled := func() bool {
				for _, n := range nodes {
					for _, key := range keys {
						version, status, err := n.get(t.Context(), key)
						if err != nil || version != origins[key].version.Load() || status.Detail != cache.DetailMemory {
							return false
						}
					}
				}
				return true
			}
			eventually(t, "all hold everything", settled)
			for i := range count(25) {
				key := keys[int(i)%len(keys)]
				before := map[string]int64{}
				for _, k := range keys {
					before[k] = origins[k].loads.Load()
				}
				origins[key].version.Add(1)
				purged, err := c.purge(t.Context(), kind, key)
				must(t, err)
				eventually(t, "all hold the new version", settled)
				if kind == "FLUSHDB" { // of the others the version is the same: wait for their fetch itself
					for _, k := range purged {
						eventually(t, "all are fetched", func() bool { return origins[k].loads.Load() > before[k] })
					}
					eventually(t, "all hold everything", settled)
				}
				want := map[string]int64{}
				for _, k := range purged {
					want[k] = 1
				}
				for _, k := range keys {
					if n := origins[k].loads.Load() - before[k]; n != want[k] {
						t.Errorf("%d fetches of %s after %s of %v, want %d", n, k, kind, purged, want[k])
					}
				}
			}
			c.end()
		})
	}
}
