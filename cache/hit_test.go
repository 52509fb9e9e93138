package cache

import (
	"testing"
	"time"

	"vitrine/cache/poll"
)

func warm(tb testing.TB, r *Reader[int64]) {
	eventually(tb, "memory", func() bool { return get(tb, r).Status.Detail == DetailMemory })
}

func TestHitAllocatesNothing(t *testing.T) {
	_, r := replica(t, embeddedURL(t), options(newSource()))
	warm(t, r)
	ctx := t.Context()
	var misses int
	allocs := testing.AllocsPerRun(1000, func() {
		a, err := r.Get(ctx)
		if err != nil || a.Status.Detail != DetailMemory {
			misses++ // a poll came late: that read waits, and allocates
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
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if v := r.view.Load(); poll.Now() < v.sent+s.trust/2 { // else a read would rightly wait for a poll
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

// BenchmarkHit is a read that the view answers.
func BenchmarkHit(b *testing.B) {
	_, r := replica(b, embeddedURL(b), options(newSource()))
	warm(b, r)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Get(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAnAnswerWithoutARecentPollSaysSo has Redis be silent for a moment, so that nobody waits for it.
func TestAnAnswerWithoutARecentPollSaysSo(t *testing.T) {
	for s := stored; s <= gone; s++ {
		c := &cached[int64]{source: s, ahead: time.Hour, fresh: time.Hour, usable: time.Hour}
		w := waiting[int64]{r: &Reader[int64]{store: &Store{}}, asked: poll.Now()}
		a, _, _, err := w.decide(t.Context(), &view[int64]{state: state[int64]{doubted: true, copy: c}, sent: w.asked - time.Hour}, w.asked)
		if err != nil || a.Status.Detail != DetailRedisAway {
			t.Errorf("source %d: %+v, %v", s, a.Status, err)
		}
	}
}
