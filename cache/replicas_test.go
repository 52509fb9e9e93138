package cache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func TestProcessesOnOneRedisSeeEachOtherAndAreForgotten(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		one, two := openStore(t, b.url), openStore(t, b.url)
		announce := func(s *Store, report string) []Replica {
			t.Helper()
			must(t, s.Announce(t.Context(), []byte(report), time.Minute))
			all, err := s.Replicas(t.Context(), time.Minute)
			must(t, err)
			return all
		}
		if all := announce(one, "first"); len(all) != 1 || !all[0].Self || string(all[0].Report) != "first" {
			t.Errorf("alone: %+v", all)
		}
		announce(one, "first again")
		all := announce(two, "second")
		if len(all) != 2 || all[0].Self == all[1].Self || all[0].Age < 0 || all[0].Age > 10*time.Second {
			t.Fatalf("together: %+v", all)
		}
		for _, r := range all {
			if want := map[bool]string{true: "second", false: "first again"}[r.Self]; string(r.Report) != want {
				t.Errorf("%+v, want %q", r, want)
			}
		}
		if ttl := b.client.PTTL(t.Context(), "vitrine:replicas").Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the list expires in %v", ttl)
		}

		must(t, one.Withdraw(t.Context()))
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after one has withdrawn: %+v", all)
		}
		must(t, b.client.HSet(t.Context(), "vitrine:replicas", "long gone", "12345 report", "nonsense", "x").Err())
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after one has died: %+v", all)
		}
		if n := b.client.HLen(t.Context(), "vitrine:replicas").Val(); n != 1 {
			t.Errorf("%d are kept", n)
		}
		must(t, b.client.Del(t.Context(), "vitrine:replicas").Err())
		must(t, b.client.Set(t.Context(), "vitrine:replicas", "an operator's mistake", 0).Err())
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after the list was overwritten: %+v", all)
		}
	})
}

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
			if left := b.client.HGet(t.Context(), lease.Beside("vitrine:", "banners"), "lease").Val(); left != "" {
				t.Errorf("the others are told %q", left)
			}
			release := src.hold()
			_, two := replica(t, b.url, options(src))
			loading := getLater(t, two)
			testkit.Receive(t, src.entered)
			waiting := make(chan Answer[int64], 1)
			go func() {
				for t.Context().Err() == nil { // until it asks again
					if a, err := one.Get(t.Context()); err == nil {
						waiting <- a
						return
					}
					watch.Sleep(t.Context(), time.Millisecond)
				}
			}()
			if asked {
				eventually(t, "it waits for the other", func() bool { s := one.Snapshot(); return s.Fetching })
			}
			release()
			for _, answer := range []<-chan Answer[int64]{loading, waiting} {
				if a := testkit.Receive(t, answer); a.Value != 2 {
					t.Errorf("%+v", a)
				}
			}
		})
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
	_, err := another().Release(t.Context(), b.client, l, lease.Word{Failure: lease.Failure{Count: 3, Code: "error"}, Pause: time.Millisecond})
	must(t, err)
	watch.Sleep(t.Context(), 5*time.Millisecond) // by Redis's clock
	o := options(LoaderFunc(func(context.Context, string, *Document) (Loaded, error) { return Loaded{}, untried(time.Hour) }))
	_, r := replica(t, b.url, o)
	if _, err := r.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	rec, err := another().Look(t.Context(), b.client, "")
	must(t, err)
	if rec.Failure != (lease.Failure{Count: 3, Code: "error"}) || rec.Left > time.Second {
		t.Errorf("%+v, for %v", rec.Failure, rec.Left)
	}
}
