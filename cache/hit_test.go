package cache

import (
	"testing"
	"time"

	"vitrine/cache/watch"
)

func warm(tb testing.TB, r *Reader[int64]) {
	inMemory := func() bool { return get(tb, r).Status.Detail == DetailMemory }
	eventually(tb, "memory", inMemory)
	stored := watch.Now()
	eventually(tb, "the own writes are announced", func() bool { return r.watched.ReceivedSince(stored) && inMemory() })
}

func TestHitAllocatesNothing(t *testing.T) {
	_, r := replica(t, embeddedURL(t), options(newSource()))
	warm(t, r)
	ctx := t.Context()
	var misses int
	allocs := testing.AllocsPerRun(1000, func() {
		a, err := r.Get(ctx)
		if err != nil || a.Status.Detail != DetailMemory {
			misses++ // a heartbeat came late: that read asks Redis, and allocates
		}
	})
	if allocs != 0 && misses == 0 {
		t.Errorf("%v allocations a read, want none", allocs)
	}
	if misses == 1001 {
		t.Error("no read came from memory")
	}
}

func TestHitDoesNotWaitForALock(t *testing.T) {
	s, r := replica(t, embeddedURL(t), options(newSource()))
	warm(t, r)
	r.mu.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e := r.memory.Load()
			if e != nil && r.watched.Trusts(&e.mark, watch.Now()) { // else a read would rightly ask, and wait
				if _, err := r.Get(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("a hit waits for a lock")
	}
}
