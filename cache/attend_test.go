package cache

import (
	"testing"

	"vitrine/cache/watch"
)

func TestASoftPurgeIsNotMissedByALookThatBeganBeforeIt(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		_, r := replica(t, b.url, options(src))
		warm(t, r)
		filled := watch.Now()
		eventually(t, "the fill itself has been heard of", func() bool { return r.watched.HeardSince(filled) })
		warm(t, r)
		// A visitor's look is under way. It has seen the copy as it was, and comes back after the
		// purge is heard.
		early := &asking[int64]{done: make(chan struct{}), at: watch.Now(), entry: r.memory.Load()}
		r.mu.Lock()
		r.asking = early
		r.mu.Unlock()
		mark := r.watched.Mark()
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		eventually(t, "the purge is heard", func() bool { return r.watched.Changed(&mark) })
		r.mu.Lock()
		r.asking = nil
		r.mu.Unlock()
		close(early.done)
		eventually(t, "it is fetched anew, though nobody reads", func() bool { return src.loads.Load() == 2 })
	})
}
