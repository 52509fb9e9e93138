package coherence

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

// purges is how many a full run makes; with -short a fifth.
const purges = 10_000

func count(n int) int64 {
	if testing.Short() {
		n /= 5
	}
	return int64(n)
}

func TestNoReplicaServesWhatWasPurged(t *testing.T) {
	server := redistest.Start(t)
	origins := newOrigins(5*time.Millisecond, keys...)
	nodes := startFleet(t, server.URL(), 4, origins, setup{})
	c := &campaign{origins: origins, replicas: named(nodes), purge: operator(server.Client()), kinds: all, soft: soft}
	c.begin(t)
	within(t, 5*time.Minute, "the purges are made", func() bool { return c.acked.Load() >= count(purges) || t.Failed() })
	v := c.end()
	v.report(t, c)
	if n := c.exempt(); n > 0 {
		t.Errorf("%d answers said that Redis is away, which it never was", n)
	}
}

// TestEmbeddedStoreIsAsCoherent is the same against the store inside a process, which one of the replicas has.
func TestEmbeddedStoreIsAsCoherent(t *testing.T) {
	t.Parallel()
	origins := newOrigins(5*time.Millisecond, keys...)
	nodes := startFleet(t, "embedded:127.0.0.1:0", 1, origins, setup{})
	nodes = append(nodes, startFleet(t, "redis://"+nodes[0].store.Addr(), 3, origins, setup{})...)
	client := redis.NewClient(&redis.Options{Addr: nodes[0].store.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	c := &campaign{origins: origins, replicas: named(nodes), purge: operator(client), kinds: all, soft: soft}
	c.begin(t)
	eventually(t, "the purges are made", func() bool { return c.acked.Load() >= 1000 || t.Failed() })
	v := c.end()
	v.report(t, c)
}

// TestPurgeReachesTheLastReplicaWithin50ms measures, of a fleet that does nothing else, how long after a purge was
// acknowledged the last replica begins to answer with the new version.
func TestPurgeReachesTheLastReplicaWithin50ms(t *testing.T) {
	server := redistest.Start(t)
	origins := newOrigins(0, "banners")
	nodes := startFleet(t, server.URL(), 4, origins, setup{options: long})
	client := server.Client()
	// Who does not wait is given what memory holds, or nothing: so one goroutine can watch all replicas.
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	var took delays
	for range 300 {
		for _, n := range nodes {
			eventually(t, "memory", func() bool {
				a, err := n.readers["banners"].Get(t.Context())
				return err == nil && a.Status.Detail == cache.DetailMemory
			})
		}
		want := origins["banners"].version.Add(1)
		must(t, client.Del(t.Context(), prefix+"banners").Err())
		acked := time.Now()
		var last time.Duration
		for old := slices.Clone(nodes); len(old) > 0; {
			old = slices.DeleteFunc(old, func(n *node) bool {
				asked := time.Since(acked)
				if a, err := n.readers["banners"].Get(hurried); err == nil && a.Value < want {
					return false
				}
				last = asked
				return true
			})
		}
		took = append(took, last)
	}
	t.Logf("from the acknowledgement until no replica can answer with the old version: %v", took)
	if worst := took.quantile(1); worst > bound {
		t.Errorf("at the worst %v, want %v", worst, bound)
	}
}
