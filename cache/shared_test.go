package cache

import (
	"testing"
	"time"

	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestALookFromBeforeAPurgeIsNotShared has a request begin, after a purge was received, beside a
// look that has read Redis before it.
func TestALookFromBeforeAPurgeIsNotShared(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	warm(t, r)
	src.version.Store(2)
	early := &asking[int64]{done: make(chan struct{}), entry: r.memory.Load()}
	eventually(t, "nobody looks", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.asking != nil {
			return false
		}
		early.at = watch.Now()
		r.asking = early
		return true
	})
	must(t, b.client.Del(t.Context(), key).Err())
	received(t, r)
	later := getLater(t, r)
	watch.Sleep(t.Context(), 5*time.Millisecond) // it shares the look by now, which is within the bound of a purge
	r.mu.Lock()
	r.asking = nil
	r.mu.Unlock()
	close(early.done)
	if a := testkit.Receive(t, later); a.Value != 2 {
		t.Errorf("purged, and received, but served: %+v", a)
	}
}

// TestAFlightFromBeforeAPurgeIsNotShared has a request begin, after a purge was received, beside a
// flight that stored its document before it, or whose load began before it.
func TestAFlightFromBeforeAPurgeIsNotShared(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]bool{"its fill was before it": true, "its fill was refused": false} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src, r := serving(t, b.url)
			warm(t, r)
			src.version.Store(2)
			stored := *r.memory.Load()
			if !mark {
				stored.mark = watch.Mark{}
			}
			early := &flight[int64]{done: make(chan struct{}), entry: &stored}
			eventually(t, "nobody fetches", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.flight != nil {
					return false
				}
				early.at = watch.Now()
				r.flight = early
				return true
			})
			must(t, b.client.Del(t.Context(), key).Err())
			received(t, r)
			later := getLater(t, r)
			watch.Sleep(t.Context(), 10*time.Millisecond) // it waits for the flight by now
			r.mu.Lock()
			r.flight = nil
			r.mu.Unlock()
			close(early.done)
			if a := testkit.Receive(t, later); a.Value != 2 {
				t.Errorf("purged, and received, but served: %+v", a)
			}
		})
	}
}

// TestASoftlyPurgedFillIsStaleForWhoAsksAfterwards has a request begin, after a soft purge was
// received, beside the load that began before it.
func TestASoftlyPurgedFillIsStaleForWhoAsksAfterwards(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	release := src.hold()
	first := getLater(t, r)
	testkit.Receive(t, src.entered)
	src.version.Store(2)
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	received(t, r)
	later := getLater(t, r)
	watch.Sleep(t.Context(), 10*time.Millisecond) // it waits for the flight by now
	release()
	testkit.Receive(t, first)
	if a := testkit.Receive(t, later); a.Value == 1 && !a.Status.Stale {
		t.Errorf("declared stale, and received, but served as fresh: %+v", a.Status)
	}
}
