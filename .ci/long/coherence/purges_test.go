package coherence

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/coherence"
	"vitrine/cache/embedded"
	"vitrine/cache/redistest"
)

// TestNoReplicaServesWhatWasPurged has four replicas of each kind before a store of each kind.
func TestNoReplicaServesWhatWasPurged(t *testing.T) {
	fleet := func(t *testing.T, url, operator string, purges int64) {
		origins := coherence.NewOrigins(5*time.Millisecond, coherence.Keys...)
		nodes := coherence.StartFleet(t, url, 4, origins, coherence.Setup{Timeout: coherence.Patient})
		client := redis.NewClient(&redis.Options{Addr: operator, MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		run(t, &coherence.Campaign{Origins: origins, Replicas: coherence.Named(nodes), Purge: coherence.Operator(client)}, purges)
	}
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		fleet(t, server.URL(), server.Addr, count(t, 1000))
	})
	t.Run("the embedded store", func(t *testing.T) {
		store, err := embedded.Start("127.0.0.1:0", nil)
		must(t, err)
		t.Cleanup(store.Close)
		fleet(t, store.URL(), store.Addr(), count(t, 200))
	})
	for name, args := range map[string][]string{
		"without CLIENT TRACKING": {"--rename-command", "CLIENT", ""},
		"without RESP3":           {"--rename-command", "HELLO", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, args...)
			origins := coherence.NewOrigins(5*time.Millisecond, coherence.Keys...)
			c := &coherence.Campaign{Origins: origins, Replicas: map[string]coherence.Replica{}, Burst: 1, Purge: coherence.Operator(server.Client())}
			for i := range 4 {
				c.Replicas[fmt.Sprint("replica ", i+1)] = coherence.Start(t, server.URL(), origins, coherence.Setup{Timeout: coherence.Patient})
			}
			run(t, c, count(t, 200))
		})
	}
	t.Run("processes", func(t *testing.T) {
		server := redistest.Start(t)
		origins := coherence.NewOrigins(5*time.Millisecond, coherence.Keys...)
		source := serveOrigins(t, origins, nil)
		c := &coherence.Campaign{Origins: origins, Replicas: map[string]coherence.Replica{}, Burst: 1, Purge: coherence.Operator(server.Client())}
		for i := range 4 {
			name := fmt.Sprint("process ", i+1)
			c.Replicas[name] = startProcess(t, spec{Name: name[len("process "):], Redis: server.URL(), Source: source, Patience: coherence.Patient})
		}
		run(t, c, count(t, 200))
	})
}

// TestCutOffReplicaStopsTrustingMemoryInTime purges in the very moment in which nothing passes any
// more between a replica and its server, and looks at how long the replica goes on answering as if
// nothing were wrong.
func TestCutOffReplicaStopsTrustingMemoryInTime(t *testing.T) {
	ways := map[string]struct {
		sever  func(*redistest.Relay)
		rounds int
	}{
		"cut":                           {(*redistest.Relay).Cut, 2}, // few: the pauses between two attempts to connect grow
		"hung":                          {(*redistest.Relay).Hang, 5},
		"the watching connection alone": {(*redistest.Relay).Deafen, 10},
	}
	for name, test := range ways {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			way := redistest.NewRelay(t, server.Addr)
			origins := coherence.NewOrigins(0, "banners")
			n := coherence.StartFleet(t, way.URL(), 1, origins, coherence.Setup{Options: coherence.Long})[0]
			client := server.Client()
			var trusted coherence.Delays
			// How soon after the purge somebody asks is the machine's doing.
			for round, least := int64(0), count(t, test.rounds); round < least || name != "cut" && trusted.Quantile(1) == 0 && round < 10*least; round++ {
				eventually(t, "memory", func() bool {
					_, status, err := n.Get(t.Context(), "banners")
					return err == nil && status.Detail == cache.DetailMemory
				})
				test.sever(way)
				want := origins["banners"].Version.Add(1)
				must(t, client.Del(t.Context(), coherence.Prefix+"banners").Err())
				acked := time.Now()
				last := time.Duration(0)
				for {
					asked := time.Since(acked)
					version, status, err := n.Get(t.Context(), "banners")
					must(t, err)
					if version >= want || status.Detail == cache.DetailRedisAway {
						break
					}
					last = asked
				}
				if last > coherence.Bound {
					t.Errorf("an answer asked for %v after the purge was acknowledged is old and does not say that redis is away", last)
				}
				trusted = append(trusted, last)
				way.Heal()
				eventually(t, "purges are received", n.Store.Listening)
			}
			t.Logf("old answers that did not say that redis is away: %v", trusted)
			if name != "cut" && trusted.Quantile(1) == 0 { // a connection that is closed is noticed at once
				t.Error("there were none at all: nothing was tried")
			}
		})
	}
}
