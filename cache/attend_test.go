package cache

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func TestASoftPurgeIsNotMissedByALookThatBeganBeforeIt(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	warm(t, r)
	filled := watch.Now()
	eventually(t, "the fill itself is received", func() bool { return r.watched.ReceivedSince(filled) })
	warm(t, r)
	// A visitor's look is under way. It has seen the copy as it was, and comes back after the
	// purge is received.
	early := &asking[int64]{done: make(chan struct{}), at: watch.Now(), entry: r.memory.Load()}
	r.mu.Lock()
	r.asking = early
	r.mu.Unlock()
	mark := r.watched.Mark()
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	eventually(t, "the purge is received", func() bool { return r.watched.Changed(&mark) })
	r.mu.Lock()
	r.asking = nil
	r.mu.Unlock()
	close(early.done)
	eventually(t, "it is fetched anew, though nobody reads", func() bool { return src.loads.Load() == 2 })
}

// TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain has Redis refuse writes while a document is
// loaded: neither the fill nor the release reaches it, so that the replica finds a lease of its
// own.
func TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src, r := serving(t, server.URL())
			warm(t, r)
			must(t, server.Client().Del(t.Context(), key).Err())
			release := src.hold()
			var reading sync.WaitGroup
			reading.Go(func() {
				for src.loads.Load() < 2 { // until the purge is received
					_, _ = r.Get(t.Context())
				}
			})
			testkit.Receive(t, src.entered)
			refuse(t, server)
			release()
			reading.Wait()
			before := src.loads.Load()
			watch.Sleep(t.Context(), time.Second)
			if n := src.loads.Load() - before; n > 1 {
				t.Errorf("loaded %d times in a second, though nobody read", n)
			}
		})
	}
}

// TestADocumentThatIsDueIsNotTriedWithoutRest has Redis refuse writes and the CMS fail after a soft
// purge.
func TestADocumentThatIsDueIsNotTriedWithoutRest(t *testing.T) {
	server, src := startRedis(t), newSource()
	o := options(src)
	o.BackoffFirst, o.BackoffMost = time.Minute, time.Minute
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	src.fail(errDown)
	_, err := server.Client().TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.HSet(t.Context(), key, "fresh_until", "0")
		tx.ConfigSet(t.Context(), "min-replicas-to-write", "1")
		return nil
	})
	must(t, err)
	eventually(t, "the CMS is tried", func() bool { return src.loads.Load() > 1 })
	before := commands(t, server)
	watch.Sleep(t.Context(), time.Second)
	if n := commands(t, server) - before; n > 500 {
		t.Errorf("%d commands in a second, though nobody read", n)
	}
}
