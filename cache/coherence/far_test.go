package coherence

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

// TestAFarRedisCostsWhatThePurgeBoundSays has a Redis 60 ms away: with the usual bound each answer
// waits for it, which is said, together with the bound that would do; with that bound answers come
// from memory, and purges still count in time.
func TestAFarRedisCostsWhatThePurgeBoundSays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newLink(t, server.Addr)
	way.slow(60 * time.Millisecond)
	origins := newOrigins(0, "banners")
	log := &lines{}
	usual := startFleet(t, way.url(), 1, origins, setup{options: long, logger: log.logger()})[0]
	var roundTrip, enough time.Duration
	eventually(t, "it is said", func() bool {
		_, status, err := usual.get(t.Context(), "banners")
		must(t, err)
		if status.Detail == cache.DetailMemory {
			t.Errorf("memory is trusted: %+v", status)
		}
		roundTrip = usual.store.RoundTrip() // an average, which is right after some
		enough = usual.store.Enough(roundTrip)
		return enough >= 120*time.Millisecond && strings.Contains(strings.Join(log.warnings(), ""), "too far away")
	})
	client := redis.NewClient(&redis.Options{Addr: way.listener.Addr().String(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	must(t, client.Ping(t.Context()).Err()) // connects
	began := time.Now()
	must(t, client.Ping(t.Context()).Err())
	if most := 6 * max(time.Since(began), roundTrip); enough > most {
		t.Errorf("a bound of %v is said to be enough, want at most %v", enough, most)
	}

	far := startFleet(t, way.url(), 1, origins, setup{options: long, bound: enough})[0]
	for range count(20) {
		memory := 0
		eventually(t, "it answers from memory", func() bool {
			_, status, err := far.get(t.Context(), "banners")
			must(t, err)
			if status.Detail == cache.DetailMemory {
				memory++
			}
			return memory >= 100
		})
		want := origins["banners"].version.Add(1)
		must(t, server.Client().Del(t.Context(), prefix+"banners").Err())
		pause(t.Context(), enough)
		if version, status, err := far.get(t.Context(), "banners"); err != nil || version != want && status.Detail != cache.DetailRedisAway {
			t.Errorf("asked %v after the purge: version %d, want %d: %+v, %v", enough, version, want, status, err)
		}
	}
}
