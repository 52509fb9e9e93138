package coherence

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/guard"
)

// TestNoReplicaServesWhatWasPurged has four replicas of each kind before a store of each kind.
func TestNoReplicaServesWhatWasPurged(t *testing.T) {
	fleet := func(t *testing.T, url, operator string, purges int64) {
		origins := NewOrigins(5*time.Millisecond, Keys...)
		nodes := StartFleet(t, url, 4, origins, Setup{Timeout: Patient})
		client := redis.NewClient(&redis.Options{Addr: operator, MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		run(t, &Campaign{Origins: origins, Replicas: Named(nodes), Purge: Operator(client)}, purges)
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
		"without CLIENT":                {"--rename-command", "CLIENT", ""},
		"without HELLO":                 {"--rename-command", "HELLO", ""},
		"without INFO":                  {"--rename-command", "INFO", ""},
		"without HELLO, ROLE, and INFO": {"--rename-command", "HELLO", "", "--rename-command", "ROLE", "", "--rename-command", "INFO", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, args...)
			origins := NewOrigins(5*time.Millisecond, Keys...)
			c := &Campaign{Origins: origins, Replicas: map[string]Replica{}, Burst: 1, Purge: Operator(server.Client())}
			for i := range 4 {
				c.Replicas[fmt.Sprint("replica ", i+1)] = Start(t, server.URL(), origins, Setup{Timeout: Patient})
			}
			run(t, c, count(t, 200))
		})
	}
	t.Run("processes", func(t *testing.T) {
		server := redistest.Start(t)
		origins := NewOrigins(5*time.Millisecond, Keys...)
		source := serveOrigins(t, origins)
		c := &Campaign{Origins: origins, Replicas: map[string]Replica{}, Burst: 1, Purge: Operator(server.Client())}
		for i := range 4 {
			name := fmt.Sprint("process ", i+1)
			c.Replicas[name] = startProcess(t, spec{Redis: server.URL(), Source: source, Patience: Patient})
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
		"cut":  {(*redistest.Relay).Cut, 2}, // few: the pauses between two attempts to connect grow
		"hung": {(*redistest.Relay).Hang, 5},
	}
	for name, test := range ways {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			way := redistest.NewRelay(t, server.Addr)
			origins := NewOrigins(0, "banners")
			n := StartFleet(t, way.URL(), 1, origins, Setup{Options: Long})[0]
			client := server.Client()
			var trusted Delays
			// How soon after the purge somebody asks is the machine's doing.
			for round, least := int64(0), count(t, test.rounds); round < least || name != "cut" && trusted.Quantile(1) == 0 && round < 10*least; round++ {
				eventually(t, "memory", func() bool {
					_, status, err := n.Get(t.Context(), "banners")
					return err == nil && status.Detail == cache.DetailMemory
				})
				test.sever(way)
				want := origins["banners"].Version.Add(1)
				must(t, client.Del(t.Context(), Prefix+"banners").Err())
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
				if last > Bound {
					t.Errorf("an answer asked for %v after the purge was acknowledged is old and does not say that redis is away", last)
				}
				trusted = append(trusted, last)
				way.Heal()
				eventually(t, "purges are received", n.Store.Answering)
			}
			t.Logf("old answers that did not say that redis is away: %v", trusted)
			if name != "cut" && trusted.Quantile(1) == 0 { // a connection that is closed is noticed at once
				t.Error("there were none at all: nothing was tried")
			}
		})
	}
}

// TestRestoresAndPurgesAtRandomMoments restores and purges before a store of each kind.
func TestRestoresAndPurgesAtRandomMoments(t *testing.T) {
	random := func(t *testing.T, url string, client redis.Cmdable, deeds int, odd bool) {
		origins := NewOrigins(5*time.Millisecond, "catalogue")
		setup := Setup{Timeout: Patient}
		if odd { // and every third document is held back for a moment
			setup.Options = func(_ string, o *cache.ReaderOptions[int64]) {
				o.TTL, o.GuardHold, o.BackoffFirst, o.BackoffMost = 50*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
				o.Guard = func(_, version int64) guard.Findings {
					if version%3 > 0 {
						return nil
					}
					return guard.Findings{{List: "banners", Kind: guard.Shrunk, Before: 20, Verdict: guard.ForHold}}
				}
			}
		}
		nodes := StartFleet(t, url, 4, origins, setup)
		c := &Restores{Key: "catalogue", Origin: origins["catalogue"], Nodes: nodes, Client: client, Seed: *seed, Odd: odd}
		c.Run(t, deeds)
	}
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		random(t, server.URL(), server.Client(), int(count(t, 400)), false)
	})
	t.Run("Redis, and odd commands", func(t *testing.T) {
		server := redistest.Start(t)
		random(t, server.URL(), server.Client(), int(count(t, 200)), true)
	})
	t.Run("the embedded store", func(t *testing.T) {
		store, err := embedded.Start("127.0.0.1:0", nil)
		must(t, err)
		t.Cleanup(store.Close)
		client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		random(t, store.URL(), client, int(count(t, 100)), false)
	})
}

// TestAFarRedisCostsWhatThePurgeBoundSays has a Redis 60 ms away: with the usual Bound
// each answer waits for it, which is said, together with the Bound that would do; with
// that Bound answers come from memory, and purges still count in time.
func TestAFarRedisCostsWhatThePurgeBoundSays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewRelay(t, server.Addr)
	way.Slow(60 * time.Millisecond)
	origins := NewOrigins(0, "banners")
	log := &testkit.Buffer{}
	usual := StartFleet(t, way.URL(), 1, origins, Setup{Options: Long, Logger: slog.New(slog.NewTextHandler(log, nil))})[0]
	var roundTrip, enough time.Duration
	eventually(t, "it is said", func() bool {
		_, status, err := usual.Get(t.Context(), "banners")
		must(t, err)
		if status.Detail == cache.DetailMemory {
			t.Errorf("memory is trusted: %+v", status)
		}
		roundTrip = usual.Store.RoundTrip() // an average, which is right after some
		enough = usual.Store.Enough(roundTrip)
		return enough >= 120*time.Millisecond && strings.Contains(log.String(), "too far away")
	})
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(way.URL(), "redis://"), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	must(t, client.Ping(t.Context()).Err()) // connects
	began := time.Now()
	must(t, client.Ping(t.Context()).Err())
	if most := 6 * max(time.Since(began), roundTrip); enough > most {
		t.Errorf("a Bound of %v is said to be enough, want at most %v", enough, most)
	}

	far := StartFleet(t, way.URL(), 1, origins, Setup{Options: Long, Bound: enough})[0]
	for range count(t, 10) {
		memory := 0
		eventually(t, "it answers from memory", func() bool {
			_, status, err := far.Get(t.Context(), "banners")
			must(t, err)
			if status.Detail == cache.DetailMemory {
				memory++
			}
			return memory >= 100
		})
		want := origins["banners"].Version.Add(1)
		must(t, server.Client().Del(t.Context(), Prefix+"banners").Err())
		poll.Sleep(t.Context(), enough)
		if version, status, err := far.Get(t.Context(), "banners"); err != nil || version != want && status.Detail != cache.DetailRedisAway {
			t.Errorf("asked %v after the Purge: version %d, want %d: %+v, %v", enough, version, want, status, err)
		}
	}
}
