package cache

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// guarded are options whose guard objects to odd versions, after others for good: 101 and later.
func guarded(src Loader, hold time.Duration) ReaderOptions[int64] {
	o := options(src)
	o.TTL, o.GuardHold = 10*time.Millisecond, hold
	o.Guard = func(held, loaded *Document) *Objection {
		before, now := versionOf(held), versionOf(loaded)
		if now%2 == 0 {
			return nil
		}
		return &Objection{Reason: "version " + strconv.FormatInt(now, 10), Before: int(before), Now: int(now), Lasting: now > 100}
	}
	return o
}

func versionOf(d *Document) int64 {
	v, err := prepare(d)
	if err != nil {
		panic(err)
	}
	return v
}

// until reads until an answer says so.
func until(t testing.TB, r *Reader[int64], what string, ok func(Answer[int64]) bool) {
	t.Helper()
	eventually(t, what, func() bool { return ok(get(t, r)) })
}

// heldBack waits until a document is held back, and version 2 is served until then.
func heldBack(t testing.TB, r *Reader[int64]) {
	t.Helper()
	until(t, r, "it is held back", func(a Answer[int64]) bool {
		if a.Value != 2 {
			t.Fatalf("version %d is served: %+v", a.Value, a.Status)
		}
		return r.Snapshot().HeldBack != nil
	})
}

func isHeld(a Answer[int64]) bool { return a.Status.Stale && a.Status.Detail == DetailHeld }

func TestADocumentThatTheGuardObjectsToIsHeldBackOnEveryReplica(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource(2)
		_, one := replica(t, b.url, guarded(src, time.Hour))
		_, other := replica(t, b.url, guarded(src, time.Hour))
		get(t, one)
		src.version.Store(101)
		until(t, one, "it is held back", isHeld)
		if a := get(t, one); a.Value != 2 {
			t.Errorf("version %d is served", a.Value)
		}
		for _, r := range []*Reader[int64]{one, other} {
			eventually(t, "it is shown", func() bool { return r.Snapshot().HeldBack != nil })
			h := r.Snapshot().HeldBack
			if h.Reason != "version 101" || h.Before != 2 || h.Now != 101 || time.Since(h.Since).Abs() > time.Minute || time.Until(h.Until) < 50*time.Minute {
				t.Errorf("%+v", h)
			}
			if r.Snapshot().Failing {
				t.Error("a document held back counts as a failure")
			}
		}
		if stored := b.client.HGet(t.Context(), "vitrine:banners", "body").Val(); stored != string(body(2)) {
			t.Errorf("Redis has %s", stored)
		}
		src.fail(errDown)
		until(t, one, "the CMS fails", func(a Answer[int64]) bool { return a.Status.Detail == DetailIfError })
		if one.Snapshot().HeldBack == nil {
			t.Error("a failure has ended the hold")
		}
		src.fail(nil)
		src.version.Store(4)
		until(t, one, "the next is taken", func(a Answer[int64]) bool { return a.Value == 4 })
		for _, r := range []*Reader[int64]{one, other} {
			eventually(t, "nothing is held back", func() bool { return r.Snapshot().HeldBack == nil })
		}
		if now := b.client.HGetAll(t.Context(), books).Val(); now["held_since"] != "" {
			t.Errorf("the books have %v", now)
		}
	})
}

// TestAHoldIsShownWhereTheCopyIsStillFresh has it recorded a moment before the copy of a replica
// that nobody asks is due; and Redis's clock be set back then.
func TestAHoldIsShownWhereTheCopyIsStillFresh(t *testing.T) {
	b := anyStore(t)
	told := make(chan *HeldBack, 100)
	_, r := replicaWith(t, Options{URL: b.url, Events: Events{Held: func(_ string, h *HeldBack) { told <- h }}}, options(newSource()))
	warm(t, r)
	seq := b.client.HGet(t.Context(), key, "seq").Val()
	must(t, b.client.HSet(t.Context(), books, "held_since", time.Now().UnixMilli(), "held_seq", seq, "held_reason", "it lost too much").Err())
	eventually(t, "it is shown", func() bool { return r.Snapshot().HeldBack != nil })
	must(t, b.client.HSet(t.Context(), books, "held_since", time.Now().Add(time.Minute).UnixMilli()).Err())
	for range 3 {
		_, err := r.look()
		must(t, err)
		watch.Sleep(t.Context(), 2*time.Millisecond)
	}
	if begun, over := testkit.Receive(t, told), testkit.Receive(t, told); begun == nil || over != nil || len(told) > 0 {
		t.Errorf("told %+v, %+v, and %d times more", begun, over, len(told))
	}
}

// TestNothingIsHeldBackFromTheFuture has the times that this process records not be ahead of Redis's
// clock: there they would not count.
func TestNothingIsHeldBackFromTheFuture(t *testing.T) {
	b := anyStore(t)
	_, r := serving(t, b.url)
	for range 300 {
		_, err := r.look()
		must(t, err)
		at := r.inRedis(watch.Now())
		now, err := b.client.Time(t.Context()).Result()
		if must(t, err); at > now.UnixMilli() {
			t.Fatalf("%d ms ahead", at-now.UnixMilli())
		}
	}
}

func TestADocumentHeldBackIsTakenOnceItIsAccepted(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		for name, accept := range map[string]func(s *Store){
			"HSET": func(*Store) { must(t, b.client.HSet(t.Context(), "vitrine:banners", "accept", 1).Err()) },
			"vitrine accept": func(s *Store) {
				held, back, err := s.Accept(t.Context(), "banners")
				if err != nil || !held || !back {
					t.Error(held, back, err)
				}
			},
			"DEL": func(*Store) { must(t, b.client.Del(t.Context(), "vitrine:banners").Err()) },
		} {
			must(t, b.client.FlushDB(t.Context()).Err())
			src := newSource(2)
			o := guarded(src, time.Hour)
			o.BackoffFirst, o.BackoffMost = time.Hour, time.Hour // only acceptance makes it fetch again
			s, r := replica(t, b.url, o)
			get(t, r)
			src.version.Store(101)
			until(t, r, "it is held back", isHeld)
			accept(s)
			until(t, r, "it is taken: "+name, func(a Answer[int64]) bool { return a.Value == 101 })
			eventually(t, "nothing is held back", func() bool { return r.Snapshot().HeldBack == nil })
			if b.client.HExists(t.Context(), "vitrine:banners", "accept").Val() {
				t.Errorf("%s: the one after it is accepted too", name)
			}
			must(t, s.Close())
		}
	})
}

func TestAcceptingWhileItIsFetchedCounts(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.TTL = time.Minute
	_, r := replica(t, b.url, o)
	get(t, r)
	src.version.Store(101)
	release := src.hold()
	defer release()
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	testkit.Receive(t, src.entered)
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "accept", 1).Err())
	release()
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 101 })
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want the one that was under way", n)
	}
}

// holding is a replica that holds version 2, and that back: 101 and later lastingly.
func holding(t *testing.T, b backend, hold time.Duration, version int64) (*source, *Reader[int64]) {
	t.Helper()
	src := newSource(2)
	_, r := replica(t, b.url, guarded(src, hold))
	get(t, r)
	src.version.Store(version)
	until(t, r, "it is held back", isHeld)
	return src, r
}

func TestADocumentIsAcceptedWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	holding(t, b, time.Hour, 101)
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "accept", 1).Err())
	eventually(t, "it is stored", func() bool {
		return b.client.HGet(t.Context(), "vitrine:banners", "body").Val() == string(body(101))
	})
}

func TestAHoldEndsWithItsTime(t *testing.T) {
	src, r := holding(t, anyStore(t), time.Second, 3)
	held := src.loads.Load()
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 3 })
	if src.loads.Load() == held {
		t.Error("taken without asking again")
	}
}

func TestNothingIsHeldBackForNoTime(t *testing.T) {
	src := newSource(2)
	_, r := replica(t, embeddedURL(t), guarded(src, 0))
	get(t, r)
	src.version.Store(3)
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 3 })
	src.version.Store(101)
	until(t, r, "it is held back", isHeld)
}

func TestAHoldThatOnlyAnOperatorEndsDoesNotShortenAnother(t *testing.T) {
	src, r := holding(t, anyStore(t), time.Second, 101)
	since := r.Snapshot().HeldBack.Since
	eventually(t, "that takes longer than the other may", func() bool { return time.Since(since) > time.Second })
	src.version.Store(3)
	until(t, r, "another is held back", func(Answer[int64]) bool {
		h := r.Snapshot().HeldBack
		return h != nil && h.Reason == "version 3" && h.Since.Sub(since) > 500*time.Millisecond
	})
}

func TestWhatCanNoLongerBeServedHoldsNothingBack(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.StaleWhileRevalidate, o.StaleIfError = 0, 1200*time.Millisecond
	o.BackoffFirst, o.BackoffMost = time.Second/2, time.Hour
	_, r := replica(t, b.url, o)
	get(t, r)
	src.version.Store(101)
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 101 }) // and get fails on an error
}

// A process can be paused at any time: here until the copy has ended, before it tells Redis that it
// holds something back, and after.
func TestNobodyGetsAnErrorForADocumentThatIsHeldBackTooLate(t *testing.T) {
	for name, inGuard := range map[string]bool{"before Redis is told": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			b := inProcess(t)
			src := newSource(2)
			o := guarded(src, time.Hour)
			o.StaleWhileRevalidate, o.StaleIfError = 0, 3*time.Second // in which it is fetched, on a busy machine too
			o.BackoffFirst, o.BackoffMost = time.Second/2, time.Hour
			ended, waiting := make(chan struct{}), make(chan struct{})
			pause := sync.OnceFunc(func() { close(waiting); <-ended })
			guard, events := o.Guard, Events{}
			if inGuard {
				o.Guard = func(held, loaded *Document) *Objection { pause(); return guard(held, loaded) }
			} else {
				events.Held = func(string, *HeldBack) { pause() }
			}
			_, r := readerWith(t, Options{URL: b.url, Events: events}, o)
			get(t, r)
			src.version.Store(101)
			answers := make(chan error)
			ask := func() {
				_, err := r.Get(t.Context())
				answers <- err
			}
			eventually(t, "the copy is stale", func() bool { return r.memory.Load().standing(watch.Now()) == copyStale })
			asked := 1
			eventually(t, "it is held back", func() bool { // a look can find the copy fresh for some more milliseconds
				select {
				case <-waiting:
					return true
				default:
					asked++
					go ask()
					return false
				}
			})
			eventually(t, "the copy has ended", func() bool { return !r.memory.Load().holds(watch.Now()) })
			go ask()
			close(ended)
			for range asked {
				must(t, testkit.Receive(t, answers))
			}
			if a := get(t, r); a.Value != 101 {
				t.Errorf("version %d is served", a.Value)
			}
		})
	}
}

func TestACopyThatRedisDoesNotHoldIsGuardedToo(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.BackoffFirst, o.BackoffMost, o.LastGood = time.Minute, time.Minute, t.TempDir()
	s, r := replica(t, b.url, o)
	get(t, r)
	eventually(t, "the last good copy is kept", func() bool { _, err := r.file.Load(); return err == nil })
	must(t, s.Close())
	must(t, b.client.FlushAll(t.Context()).Err())
	src.version.Store(101)
	_, r = replica(t, b.url, o)
	heldBack(t, r)
	o.LastGood = ""
	if _, other := replica(t, b.url, o); get(t, other).Value != 101 {
		t.Error("a replica without a copy has nothing to hold it back for")
	}
}

// TestAHoldPausesOnlyWhoHasACopy has a copy be removed, or be none that can be used, while another
// document is held back for it.
func TestAHoldPausesOnlyWhoHasACopy(t *testing.T) {
	for _, fields := range [][]any{{"HDEL", key, "etag"}, {"HDEL", key, "etag", "body"}, {"HDEL", key, "fetched_at"}, {"HSET", key, "body", "x"}, {"HSET", key, "etag", "x"}} {
		t.Run(fmt.Sprint(fields...), func(t *testing.T) {
			b := anyStore(t)
			src := newSource(2)
			o := guarded(src, time.Hour)
			o.BackoffFirst, o.BackoffMost = time.Minute, time.Minute
			_, r := replica(t, b.url, o)
			get(t, r)
			src.version.Store(101)
			until(t, r, "it is held back", isHeld)
			must(t, b.client.Do(t.Context(), fields...).Err())
			received(t, r)
			get(t, r) // no error
			if _, other := replica(t, b.url, o); get(t, other).Value != 101 {
				t.Error("a replica without a copy has another")
			}
		})
	}
}

func TestAReplicaOnItsOwnHoldsBackToo(t *testing.T) {
	url := embeddedURL(t)
	src := newSource(2)
	relayed := redistest.NewRelay(t, strings.TrimPrefix(url, "redis://"))
	o := guarded(src, time.Hour)
	o.BackoffFirst, o.BackoffMost = time.Second/2, time.Second/2
	_, r := replica(t, relayed.URL(), o)
	get(t, r)
	relayed.Cut()
	eventually(t, "Redis is unreachable", func() bool { return !r.store.Up() })
	src.version.Store(101)
	heldBack(t, r)
	began, loads := time.Now(), src.loads.Load()
	for time.Since(began) < time.Second {
		get(t, r)
		<-time.After(time.Millisecond)
	}
	if n := src.loads.Load() - loads; n > 5 { // a pause is at least half of what it may be
		t.Errorf("%d loads in a second", n)
	}
	src.version.Store(4)
	until(t, r, "the next is taken", func(a Answer[int64]) bool { return a.Value == 4 && r.Snapshot().HeldBack == nil })
}

// TestAHoldWhoseRecordIsNotAnsweredIsOne has Redis record a hold, and the reply not come: to the
// first call, or to the second one either.
func TestAHoldWhoseRecordIsNotAnsweredIsOne(t *testing.T) {
	t.Parallel()
	for _, losses := range []int{1, 2} {
		t.Run(strconv.Itoa(losses), func(t *testing.T) {
			b := anyStore(t)
			src := newSource(2)
			way := redistest.NewRelay(t, strings.TrimPrefix(b.url, "redis://"))
			told := make(chan *HeldBack, 100)
			o := guarded(src, time.Hour)
			o.StaleWhileRevalidate = 0                               // visitors wait
			o.BackoffFirst, o.BackoffMost = time.Minute, time.Minute // one fetch
			s, r := replicaWith(t, Options{URL: way.URL(), Events: Events{Held: func(_ string, h *HeldBack) { told <- h }}}, o)
			_, other := replica(t, b.url, o)
			get(t, r)
			_, err := another().Release(t.Context(), b.client, lease.Lease{}, lease.Word{}) // its script is there
			must(t, err)
			left := way.Lose(":held", losses)
			src.version.Store(101)
			elapsed := testkit.Stopwatch(t)
			for _, r := range []*Reader[int64]{r, other} {
				until(t, r, "it is held back", func(a Answer[int64]) bool {
					if a.Value != 2 {
						t.Fatalf("version %d is served: %+v", a.Value, a.Status)
					}
					return isHeld(a) && r.Snapshot().HeldBack != nil
				})
			}
			if took := elapsed(); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
			eventually(t, "no reply is waited for", func() bool { return left() == 0 && !r.Snapshot().Fetching && s.Listening() })
			until(t, r, "it is still held back", isHeld)
			now := b.client.HGet(t.Context(), books, "lease").Val()
			if loads := src.loads.Load(); now != "failed:1:held" || loads != 2 || len(told) != 1 {
				t.Errorf("the lease is %q after %d loads, and %d holds were told", now, loads, len(told))
			}
		})
	}
}
