package cache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cmd/testkit"
)

// TestAProcessThatCannotLoadLeavesItToOthers has the breaker of one replica open while the CMS is
// well for the other.
func TestAProcessThatCannotLoadLeavesItToOthers(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"known before the lease": true, "known during the load": false} {
		t.Run(name, func(t *testing.T) {
			b := anyStore(t)
			src, o := newSource(), options(newSource())
			src.version.Store(2)
			unable := fmt.Errorf("fetch: %w", untried(time.Hour))
			o.BackoffMost = time.Hour
			o.Loader = LoaderFunc(func(context.Context, string, *Document) (Loaded, error) { return Loaded{}, unable })
			if asked {
				o.Unable = func() error { return unable }
			}
			_, one := replica(t, b.url, o)
			var retry *RetryError
			if _, err := one.Get(t.Context()); !errors.As(err, &retry) || retry.After < time.Minute {
				t.Errorf("its breaker is open: %v", err)
			}
			if left := b.client.HGet(t.Context(), lease.Lock("vitrine:", "banners"), "lease").Val(); left != "" {
				t.Errorf("the others are told %q", left)
			}
			_, two := replica(t, b.url, options(src))
			if a := get(t, two); a.Value != 2 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestAProcessThatCannotLoadIsNotFailingWithAnothersDocument: it may say that it cannot load after a poll
// has shown the document, and before it has read the body.
func TestAProcessThatCannotLoadIsNotFailingWithAnothersDocument(t *testing.T) {
	b := anyStore(t)
	src, o := newSource(), options(newSource())
	o.Unable = func() error { return untried(time.Hour) }
	_, one := replica(t, b.url, o)
	_, two := replica(t, b.url, options(src))
	release := src.hold()
	got := make(chan int64, 1)
	go func() { a, _ := one.Get(t.Context()); got <- a.Value }() // which asks others to
	go func() { _, _ = two.Get(t.Context()) }()
	testkit.Receive(t, src.entered)
	poll.Sleep(t.Context(), 3*one.store.o.PurgeBound)
	release()
	if v := testkit.Receive(t, got); v != 1 || one.Snapshot().Failures > 0 {
		t.Errorf("version %d, %d failures", v, one.Snapshot().Failures)
	}
}

// TestAnOpenBreakerIsToldDuringAPause has a breaker open with a failure, whose pause is not over.
func TestAnOpenBreakerIsToldDuringAPause(t *testing.T) {
	b := anyStore(t)
	src, o := newSource(), options(nil)
	src.fail(errDown)
	o.Loader, o.BackoffFirst, o.BackoffMost = src, time.Minute, time.Minute
	var open atomic.Bool
	o.Unable = func() error {
		if !open.Load() {
			return nil
		}
		return untried(time.Hour)
	}
	_, r := replica(t, b.url, o)
	if _, err := r.Get(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("the breaker is closed: %v", err)
	}
	open.Store(true)
	var retry *RetryError
	if _, err := r.Get(t.Context()); !errors.As(err, &retry) || !errors.As(err, new(untried)) || retry.After != time.Hour {
		t.Errorf("the breaker is open: %v", err)
	}
	open.Store(false)
	if _, err := r.Get(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("it is closed again: %v", err)
	}
}

// TestWhoIsUnableForgetsNoFailure has failures of others counted on.
func TestWhoIsUnableForgetsNoFailure(t *testing.T) {
	b := anyStore(t)
	l := acquire(t, b.client, time.Minute)
	ride(t, b.client, lease.Release(l, lease.Failure{Count: 3, Code: "error"}, time.Millisecond))
	poll.Sleep(t.Context(), 5*time.Millisecond) // by Redis's clock
	o := options(LoaderFunc(func(context.Context, string, *Document) (Loaded, error) { return Loaded{}, untried(time.Hour) }))
	_, r := replica(t, b.url, o)
	if _, err := r.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	eventually(t, "the failure is there again", func() bool {
		rec, _, err := another().Look(t.Context(), b.client)
		must(t, err)
		return rec.Failure == lease.Failure{Count: 3, Code: "error"} && rec.Left < time.Second
	})
}
