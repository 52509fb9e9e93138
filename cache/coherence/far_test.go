package coherence

import (
	"strings"
	"testing"
	"time"

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
	var enough time.Duration
	eventually(t, "it is said", func() bool {
		_, status, err := usual.get(t.Context(), "banners")
		must(t, err)
		if status.Detail == cache.DetailMemory {
			t.Errorf("memory is trusted: %+v", status)
		}
		enough = usual.store.Enough(usual.store.RoundTrip())
		return enough > 0 && strings.Contains(strings.Join(log.warnings(), ""), "too far away")
	})
	if enough < 120*time.Millisecond || enough > 400*time.Millisecond {
		t.Errorf("a bound of %v is said to be enough", enough)
	}

	far := startFleet(t, way.url(), 1, origins, setup{options: long, bound: enough})[0]
	for range count(20) {
		eventually(t, "it answers from memory", func() bool {
			_, status, err := far.get(t.Context(), "banners")
			must(t, err)
			return status.Detail == cache.DetailMemory
		})
		began, memory := time.Now(), 0
		for time.Since(began) < enough {
			if _, status, err := far.get(t.Context(), "banners"); err == nil && status.Detail == cache.DetailMemory {
				memory++
			}
		}
		if memory < 100 {
			t.Errorf("%d answers from memory in %v", memory, enough)
		}
		want := origins["banners"].version.Add(1)
		must(t, server.Client().Del(t.Context(), prefix+"banners").Err())
		pause(t.Context(), enough)
		if version, status, err := far.get(t.Context(), "banners"); err != nil || version != want {
			t.Errorf("asked %v after the purge: version %d, want %d: %+v, %v", enough, version, want, status, err)
		}
	}
}
