package cache

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPurgeEndsTheLoadThatItMadeVoid(t *testing.T) {
	purges := map[string]func(t *testing.T, b backend) error{
		"hard": func(t *testing.T, b backend) error { return b.client.Del(t.Context(), key).Err() },
		"soft": func(t *testing.T, b backend) error { return b.client.HSet(t.Context(), key, "fresh_until", 0).Err() },
	}
	backends(t, func(t *testing.T, b backend) {
		for name, purge := range purges {
			t.Run(name, func(t *testing.T) {
				must(t, b.client.FlushDB(t.Context()).Err())
				src := newSource()
				first := make(chan struct{})
				ended := make(chan error, 1)
				loader := LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
					if src.loads.Load() > 0 {
						return src.Load(ctx, k, held)
					}
					src.loads.Add(1)
					close(first)
					<-ctx.Done() // a CMS that hangs
					ended <- context.Cause(ctx)
					return Loaded{}, ctx.Err()
				})
				_, r := replica(t, b.url, options(loader))
				got := make(chan Answer[int64], 1)
				go func() {
					a, err := r.Get(t.Context())
					if err != nil {
						t.Error(err)
					}
					got <- a
				}()
				<-first
				must(t, purge(t, b))
				if a := <-got; a.Value != 1 {
					t.Errorf("got %+v", a)
				}
				if cause := <-ended; !errors.Is(cause, errVoid) {
					t.Errorf("the void load ended by %v", cause)
				}
				if n := src.loads.Load(); n != 2 {
					t.Errorf("%d loads, want the void one and its successor", n)
				}
				if r.failing.Load() {
					t.Error("a void load was taken for a failure of the CMS")
				}
			})
		}
	})
}

func TestLeaseWhoseAnswerWasLostKeepsNobodyWaiting(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		store, r := replica(t, b.url, options(src))
		_, other := replica(t, b.url, options(src))
		// Redis gives this process a lease, and the answer does not come.
		lose := func() string {
			token := store.token()
			l, err := store.acquire(t.Context(), "banners", token, "test", "", time.Hour, time.Minute)
			must(t, err)
			if l.outcome != granted {
				t.Fatalf("not granted: %+v", l)
			}
			return token
		}
		r.orphan(lose())
		r.wake()
		get(t, other) // waits no longer than it takes to give the lease back
		if n := src.loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}

		warm(t, r)
		must(t, b.client.Del(t.Context(), key).Err())
		eventually(t, "the purge is heard", func() bool { return r.memory.Load() == nil })
		lose() // and this time nobody even knows of it: the process takes over from itself
		get(t, r)
		if n := src.loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}
