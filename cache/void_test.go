package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func TestPurgeEndsTheLoadThatItMadeVoid(t *testing.T) {
	b := anyStore(t)
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
	got := getLater(t, r)
	testkit.Receive(t, first)
	must(t, b.client.Del(t.Context(), key).Err())
	if a := testkit.Receive(t, got); a.Value != 1 {
		t.Errorf("got %+v", a)
	}
	if cause := testkit.Receive(t, ended); !errors.Is(cause, errVoid) {
		t.Errorf("the void load ended by %v", cause)
	}
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want the void one and its successor", n)
	}
	if r.pause.Load().count > 0 {
		t.Error("a void load was taken for a failure of the CMS")
	}
}

func TestLeaseWhoseAnswerWasLostKeepsNobodyWaiting(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	_, other := replica(t, b.url, options(src))
	// Redis gives this process a lease, and the answer does not come.
	lose := func() {
		l, err := r.hash.Acquire(t.Context(), b.client, lease.Request{Token: r.store.token(), Source: "test", Length: time.Minute, TTL: time.Minute})
		must(t, err)
		if l.Outcome != lease.Granted {
			t.Fatalf("not granted: %+v", l)
		}
	}
	lose()
	r.notify(watch.Back)
	get(t, other) // waits no longer than the first's load, which nobody waits for there
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}

	warm(t, r)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "the purge is received", func() bool { return r.memory.Load().doc == nil })
	lose()
	get(t, r)
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want 2", n)
	}
}

// TestALeaseThatAReplicaDoesNotUseIsGivenBack has the reply of an acquire be lost, and the replica fetch
// nothing by itself: its breaker is open, or it pauses after a failure.
func TestALeaseThatAReplicaDoesNotUseIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(r *Reader[int64], open *atomic.Bool){
		"its breaker is open": func(_ *Reader[int64], open *atomic.Bool) { open.Store(true) },
		"it pauses": func(r *Reader[int64], _ *atomic.Bool) {
			r.rest(pause{count: 1, until: watch.Now() + time.Hour, err: errDown, mark: r.watched.Mark()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src := newSource()
			o := options(src)
			var open atomic.Bool
			o.Unable = func() error {
				if open.Load() {
					return untried(time.Hour)
				}
				return nil
			}
			store, r := replica(t, b.url, o)
			warm(t, r)
			received(t, r)
			stop(r, &open)
			l, err := r.hash.Acquire(t.Context(), b.client, lease.Request{Token: store.token(), Source: "test", Length: time.Minute, TTL: time.Millisecond})
			must(t, err)
			if l.Outcome != lease.Granted {
				t.Fatalf("not granted: %+v", l)
			}
			r.notify(watch.Back)
			eventually(t, "it is given back", func() bool { return b.client.HGet(t.Context(), books, "lease").Val() == "" })
			if n := src.loads.Load(); n != 1 {
				t.Errorf("%d loads, want the first alone", n)
			}
		})
	}
}

// TestALeaseThatIsUsedIsNotGivenBack has looks find the lease of a load that is under way.
func TestALeaseThatIsUsedIsNotGivenBack(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	got, release := loading(t, src, r)
	for range 10 {
		_, err := r.look()
		must(t, err)
	}
	release()
	if a := testkit.Receive(t, got); !a.Status.Stored || src.loads.Load() != 1 {
		t.Errorf("%+v after %d loads", a.Status, src.loads.Load())
	}
}

// TestASoftPurgeLetsTheLoadUnderWayEnd has what it brings stored as stale, and loaded once more.
func TestASoftPurgeLetsTheLoadUnderWayEnd(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	warm(t, r)
	src.version.Store(2)
	release := src.hold()
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	testkit.Receive(t, src.entered) // version 2, because of the purge
	src.version.Store(3)
	mark := r.watched.Mark()
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	eventually(t, "the second purge is received", func() bool { return r.watched.Changed(&mark) })
	release()
	seen := map[int64]bool{}
	eventually(t, "what was loaded after the second purge", func() bool {
		a := get(t, r)
		seen[a.Value] = true
		if a.Value == 2 && !a.Status.Stale {
			t.Errorf("what was loaded before the second purge is fresh: %+v", a.Status)
		}
		return a.Value == 3 && !a.Status.Stale
	})
	if n := src.loads.Load(); n != 3 {
		t.Errorf("%d loads, want the first and one for each purge", n)
	}
}

// TestPurgesFasterThanLoadsLeaveNobodyWithoutAnAnswer purges at such a pace that no load is ever
// stored.
func TestPurgesFasterThanLoadsLeaveNobodyWithoutAnAnswer(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		slow := LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
			loaded, err := src.Load(ctx, key, held)
			if !watch.Sleep(ctx, 50*time.Millisecond) {
				return Loaded{}, ctx.Err()
			}
			return loaded, err
		})
		_, r := replica(t, b.url, options(slow))
		purging, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for watch.Sleep(purging, 20*time.Millisecond) {
				_ = b.client.Del(purging, key).Err()
				src.version.Add(1)
			}
		}()
		for range 20 {
			want, began := src.version.Load(), time.Now()
			a, err := r.Get(t.Context())
			if err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			} else if a.Value < want-3 { // a purge is a version, and 50 ms are two or three of them
				t.Errorf("got version %d, asked for when it was %d", a.Value, want)
			}
		}
		stop()
		testkit.Receive(t, done)
		if r.pause.Load().count > 0 {
			t.Error("purges were taken for failures of the CMS")
		}
	})
}

// TestPurgesFasterThanLoadsLeaveNobodyWithoutAnAnswerAlone is the same for a process on its own
// that still receives purges: its calls time out, or Redis refuses them.
func TestPurgesFasterThanLoadsLeaveNobodyWithoutAnAnswerAlone(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			server := startRedis(t)
			src := newSource()
			var r *Reader[int64]
			purged := LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
				loaded, err := src.Load(ctx, k, held)
				mark := r.watched.Mark()
				must(t, server.Client().HSet(t.Context(), key, "fresh_until", 1).Err())
				must(t, server.Client().Del(t.Context(), key).Err())
				since := watch.Now()
				eventually(t, "the purge is received", func() bool { return r.watched.Changed(&mark) && r.watched.ReceivedSince(since) })
				return loaded, err
			})
			_, r = replica(t, server.URL(), options(purged))
			for try := range 3 {
				f := &flight[int64]{}
				r.mu.Lock()
				r.flight = f
				r.mu.Unlock()
				if alone {
					r.loadAlone(t.Context(), f)
				} else {
					r.loadRefused(t.Context(), f)
				}
				if f.err != nil || r.voids != try+1 || (f.entry != nil) != (try > 0) {
					t.Errorf("load %d: %+v", try+1, f)
				}
				if r.memory.Load().holds(watch.Now()) {
					t.Error("what was purged is in memory")
				}
			}
		})
	}
}

// TestALookFromBeforeAPurgeIsNotShared has a request begin, after a purge was received, beside a
// look that has read Redis before it.
func TestALookFromBeforeAPurgeIsNotShared(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	warm(t, r)
	src.version.Store(2)
	end := holdLooks(t, r, r.memory.Load(), nil)
	must(t, b.client.Del(t.Context(), key).Err())
	received(t, r)
	later := getLater(t, r)
	watch.Sleep(t.Context(), 5*time.Millisecond) // it shares the look by now, which is within the bound of a purge
	end()
	if a := testkit.Receive(t, later); a.Value != 2 {
		t.Errorf("purged, and received, but served: %+v", a)
	}
}

// TestADocumentThatAFlightFindsIsGivenToWhoAskedBefore has another replica store one between a
// request's look and its lease, and a purge be received before the request goes on.
func TestADocumentThatAFlightFindsIsGivenToWhoAskedBefore(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"memory has the document": false, "memory has the purge": true} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src := newSource(2)
			o := options(src)
			var r *Reader[int64]
			var stores sync.Once
			var end func()
			o.Unable = func() error {
				stores.Do(func() {
					end = holdLooks(t, r, nil, errDown)
					fill(t, b.client, acquire(t, b.client, time.Minute), 1)
				})
				return nil
			}
			o.Prepare = func(d *Document) (int64, error) {
				if string(d.Body) == string(body(1)) {
					must(t, b.client.Del(t.Context(), key).Err())
					received(t, r)
					if known {
						_, err := r.look()
						must(t, err)
					}
					end()
				}
				return prepare(d)
			}
			_, r = replica(t, b.url, o)
			if a := get(t, r); a.Value != 1 || src.loads.Load() > 0 {
				t.Errorf("got %+v after %d loads", a, src.loads.Load())
			}
			if a := get(t, r); a.Value != 2 {
				t.Errorf("then %+v, which was purged", a)
			}
		})
	}
}

// TestTheFirstLooksMayBeginTogether has none of them find out first that the store, as Redis before
// 7.0, runs no script that is read-only.
func TestTheFirstLooksMayBeginTogether(t *testing.T) {
	b := inProcess(t)
	for range 20 {
		hash := another()
		var looks sync.WaitGroup
		for range 8 {
			looks.Go(func() {
				_, err := hash.Look(t.Context(), b.client, "")
				testkit.Check(t, err)
			})
		}
		looks.Wait()
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
	first, release := loading(t, src, r)
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
