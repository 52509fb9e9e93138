package coherence

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/coherence"
	"vitrine/cache/embedded"
	"vitrine/cache/redistest"
)

// TestRestoresAndPurgesAtRandomMoments restores and purges before a store of each kind.
func TestRestoresAndPurgesAtRandomMoments(t *testing.T) {
	random := func(t *testing.T, url string, client redis.Cmdable, deeds int) {
		origins := coherence.NewOrigins(5*time.Millisecond, "catalogue")
		nodes := coherence.StartFleet(t, url, 4, origins, coherence.Setup{Timeout: coherence.Patient})
		c := &coherence.Restores{Key: "catalogue", Origin: origins["catalogue"], Nodes: nodes, Client: client}
		c.Run(t, deeds)
	}
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		random(t, server.URL(), server.Client(), int(count(t, 400)))
	})
	t.Run("the embedded store", func(t *testing.T) {
		store, err := embedded.Start("127.0.0.1:0", nil)
		must(t, err)
		t.Cleanup(store.Close)
		client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		random(t, store.URL(), client, int(count(t, 100)))
	})
}
