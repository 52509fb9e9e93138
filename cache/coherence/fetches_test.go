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
