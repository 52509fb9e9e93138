package coherence

import (
	"context"
	"fmt"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cmd/testkit"
)

// Settle has every replica hold a copy of each document that nobody has purged. Nobody purges then.
func (c *Campaign) Settle(t testing.TB) {
	t.Helper()
	c.Hush()
	unsettled := ""
	defer func() {
		if t.Failed() {
			t.Log(unsettled)
		}
	}()
	testkit.Eventually(t, "all hold copies that nobody has purged", func() bool {
		for range 300 {
			if unsettled = c.unsettled(t.Context()); unsettled == "" {
				return true
			}
			poll.Sleep(t.Context(), time.Millisecond)
		}
		for key := range c.Origins {
			c.purgeOnce(t.Context(), "DEL", key)
		}
		return false
	})
}

// unsettled says who holds no such copy; "" if all do.
func (c *Campaign) unsettled(ctx context.Context) string {
	for name, r := range c.Replicas {
		for key, checker := range c.checkers {
			// What Redis refused is none of its: a purge of a key that is missing does not reach it.
			if version, status, err := r.Get(ctx, key); err != nil || !checker.isClean(version) && status.Detail != cache.DetailRedisRefused {
				return fmt.Sprintf("%s: %s: version %d, which may have been purged (%+v, %v)", name, key, version, status, err)
			}
		}
	}
	return ""
}

// HasLost says that a replica holds a copy that Redis has lost, or has an error.
func (c *Campaign) HasLost(ctx context.Context) bool {
	for _, r := range c.Replicas {
		for key := range c.Origins {
			if _, status, err := r.Get(ctx, key); err != nil || status.Detail == cache.DetailRedisLost {
				return true
			}
		}
	}
	return false
}
