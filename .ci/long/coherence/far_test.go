package coherence

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/coherence"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestAFarRedisCostsWhatThePurgeBoundSays has a Redis 60 ms away: with the usual coherence.Bound
// each answer waits for it, which is said, together with the coherence.Bound that would do; with
// that coherence.Bound answers come from memory, and purges still count in time.
func TestAFarRedisCostsWhatThePurgeBoundSays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewRelay(t, server.Addr)
	way.Slow(60 * time.Millisecond)
	origins := coherence.NewOrigins(0, "banners")
	log := &testkit.Buffer{}
	usual := coherence.StartFleet(t, way.URL(), 1, origins, coherence.Setup{Options: coherence.Long, Logger: slog.New(slog.NewTextHandler(log, nil))})[0]
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
		t.Errorf("a coherence.Bound of %v is said to be enough, want at most %v", enough, most)
	}

	far := coherence.StartFleet(t, way.URL(), 1, origins, coherence.Setup{Options: coherence.Long, Bound: enough})[0]
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
		must(t, server.Client().Del(t.Context(), coherence.Prefix+"banners").Err())
		watch.Sleep(t.Context(), enough)
		if version, status, err := far.Get(t.Context(), "banners"); err != nil || version != want && status.Detail != cache.DetailRedisAway {
			t.Errorf("asked %v after the Purge: version %d, want %d: %+v, %v", enough, version, want, status, err)
		}
	}
}
