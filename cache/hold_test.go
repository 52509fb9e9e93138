package cache

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/guard"
)

// guarded are options whose guard objects to odd versions, after others for good: 101 and later.
func guarded(src Loader, hold time.Duration) ReaderOptions[int64] {
	o := options(src)
	o.TTL, o.GuardHold = 10*time.Millisecond, hold
	o.Guard = func(before, now int64) guard.Findings {
		if now%2 == 0 {
			return nil
		}
		f := guard.Finding{List: "banners", Kind: guard.Shrunk, Before: int(before), After: int(now), Items: int(now), Verdict: guard.ForHold}
		if now > 100 {
			f.Verdict = guard.UntilAccepted
		}
		return guard.Findings{f}
	}
	return o
}

// lost is the reason for which such a version is held back.
func lossOf(version int64) string { return fmt.Sprintf("%d banners, 2 before", version) }

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

// holdEvents collects what is told of holds: that one has begun (""), or why it has ended.
func holdEvents() (Events, chan guard.End) {
	told := make(chan guard.End, 100)
	return Events{Held: func(_ string, _ *guard.Hold, end guard.End) { told <- end }}, told
}

// toldOnce demands that one hold was told, and its end.
func toldOnce(t *testing.T, told chan guard.End, why guard.End) {
	t.Helper()
	if begun, over := testkit.Receive(t, told), testkit.Receive(t, told); begun != "" || over != why || len(told) > 0 {
		t.Errorf("told %+v, %+v, and %d times more", begun, over, len(told))
	}
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
			if h.Reason != lossOf(101) || len(h.Findings) != 1 || time.Since(h.Since).Abs() > time.Minute || time.Until(*h.Until) < 50*time.Minute {
				t.Errorf("%+v", h)
			}
			if r.Snapshot().Failures > 0 {
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
	events, told := holdEvents()
	_, r := replicaWith(t, Options{URL: b.url, Events: events}, options(newSource()))
	warm(t, r)
	seq := b.client.HGet(t.Context(), key, "seq").Val()
	must(t, b.client.HSet(t.Context(), books, "held_since", time.Now().UnixMilli(), "held_seq", seq, "held_findings", `[{"path":"banners","kind":"emptied","before":5,"verdict":"for_hold"}]`).Err())
	eventually(t, "it is shown", func() bool { return r.Snapshot().HeldBack != nil })
	must(t, b.client.HSet(t.Context(), books, "held_since", time.Now().Add(time.Minute).UnixMilli()).Err())
	for range 3 {
		received(t, r)
		poll.Sleep(t.Context(), 2*time.Millisecond)
	}
	if begun, over := testkit.Receive(t, told), testkit.Receive(t, told); begun != "" || over == "" || len(told) > 0 {
		t.Errorf("told %+v, %+v, and %d times more", begun, over, len(told))
	}
}

func TestADocumentHeldBackIsTakenOnceItIsAccepted(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		for name, accept := range map[string]func(s *Store){
			"vitrine accept": func(s *Store) { accepting(t, s) },
			"DEL":            func(*Store) { must(t, b.client.Del(t.Context(), "vitrine:banners").Err()) },
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
			eventually(t, "it is taken: "+name, func() bool {
				if name == "DEL" { // otherwise it is taken without visitors
					_, _ = r.Get(t.Context())
				}
				s := r.Snapshot()
				return s.Value == 101 && s.HeldBack == nil
			})
			if b.client.HExists(t.Context(), books, "accepted").Val() {
				t.Errorf("%s: the one after it is accepted too", name)
			}
			must(t, s.Close())
		}
	})
}

// accepting accepts what is held back, as the command does.
func accepting(t testing.TB, s *Store) {
	t.Helper()
	present, err := s.Present(t.Context(), "banners")
	must(t, err)
	if done, err := s.Accept(t.Context(), "banners", present, ""); err != nil || !done {
		t.Error(done, err)
	}
}

func TestAcceptingWhileItIsFetchedCounts(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.TTL = time.Minute
	s, r := replica(t, b.url, o)
	get(t, r)
	src.version.Store(101)
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	until(t, r, "it is held back", isHeld)
	release := src.hold()
	defer release()
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	testkit.Receive(t, src.entered)
	accepting(t, s)
	eventually(t, "it is shown", func() bool { return r.Snapshot().HeldBack.Accepted })
	release()
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 101 })
	if n := src.loads.Load(); n != 3 {
		t.Errorf("%d loads, want the one that was under way", n)
	}
}

// TestNothingWorseIsAcceptedThanWhatIsHeldBack has the loss grow after the operator has read of it: when
// it is accepted, and before the next fetch.
func TestNothingWorseIsAcceptedThanWhatIsHeldBack(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	events, told := holdEvents()
	o := guarded(src, time.Hour)
	o.Always = true
	s, r := replicaWith(t, Options{URL: b.url, Events: events}, o)
	get(t, r)
	src.version.Store(103)
	until(t, r, "it is held back", isHeld)
	read, err := s.Present(t.Context(), "banners")
	must(t, err)
	if none, err := s.Accept(t.Context(), "banners", Present{}, ""); none || err != nil {
		t.Error(none, err)
	}
	holds := func(version int64) {
		t.Helper()
		src.version.Store(version)
		until(t, r, "it is held back", func(a Answer[int64]) bool {
			h := r.Snapshot().HeldBack
			if a.Value != 2 {
				t.Fatalf("version %d is served", a.Value)
			}
			return h != nil && h.Reason == lossOf(version) && !h.Accepted
		})
	}
	holds(101)
	if done, err := s.Accept(t.Context(), "banners", read, ""); done || err != nil {
		t.Error("what is held back no longer is accepted", err)
	}
	src.version.Store(99)
	release := src.hold()
	for testkit.Receive(t, src.entered) != 99 {
		release()
		release = src.hold()
	}
	accepting(t, s)
	release()
	holds(99)
	holds(101)
	if begun := testkit.Receive(t, told); begun != "" || len(told) > 0 {
		t.Errorf("one hold was told %q, and %d times more", begun, len(told))
	}
	accepting(t, s)
	until(t, r, "it is taken", func(a Answer[int64]) bool { return a.Value == 101 })
	src.version.Store(3)
	until(t, r, "the next is held back again", isHeld)
}

func TestContentWarningsAreAcknowledgedOnEveryReplica(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	s, one := replica(t, b.url, options(src))
	_, other := replica(t, b.url, options(src))
	get(t, one)
	get(t, other)
	present, err := s.Present(t.Context(), "banners")
	must(t, err)
	if done, err := s.Accept(t.Context(), "banners", present, "acknowledged"); err != nil || !done {
		t.Error(done, err)
	}
	for _, r := range []*Reader[int64]{one, other} {
		until(t, r, "it is seen", func(a Answer[int64]) bool { return a.Document.Suspicions == "acknowledged" })
	}
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// holding is a replica that holds version 2, and that back: 101 and later lastingly.
func holding(t *testing.T, b backend, hold time.Duration, version int64) (*cms, *Reader[int64]) {
	t.Helper()
	src := newSource(2)
	_, r := replica(t, b.url, guarded(src, hold))
	get(t, r)
	src.version.Store(version)
	until(t, r, "it is held back", isHeld)
	return src, r
}

// TestTheEndOfAHoldIsToldWithItsReason tells every replica, and what was lost.
func TestTheEndOfAHoldIsToldWithItsReason(t *testing.T) {
	for want, end := range map[guard.End]func(t *testing.T, s *Store, src *cms){
		guard.Recovered: func(_ *testing.T, _ *Store, src *cms) { src.version.Store(4) },
		guard.Accepted:  func(t *testing.T, s *Store, _ *cms) { accepting(t, s) },
		guard.Expired:   func(*testing.T, *Store, *cms) {},
	} {
		t.Run(string(want), func(t *testing.T) {
			b := anyStore(t)
			src := newSource(2)
			hold := time.Hour
			if want == guard.Expired {
				hold = time.Second
			}
			type event struct {
				reason string
				end    guard.End
			}
			var told [2]chan event
			var s *Store
			var readers []*Reader[int64]
			for i := range told {
				told[i] = make(chan event, 100)
				var r *Reader[int64]
				s, r = replicaWith(t, Options{URL: b.url, Events: Events{Held: func(_ string, h *guard.Hold, end guard.End) { told[i] <- event{h.Reason, end} }}}, guarded(src, hold))
				get(t, r)
				readers = append(readers, r)
			}
			src.version.Store(3)
			for i, r := range readers {
				until(t, r, "it is held back", isHeld)
				if got := testkit.Receive(t, told[i]); got != (event{lossOf(3), ""}) {
					t.Errorf("replica %d is told %v", i, got)
				}
			}
			end(t, s, src)
			for i, r := range readers {
				until(t, r, "it is over", func(a Answer[int64]) bool { return r.Snapshot().HeldBack == nil })
				if got := testkit.Receive(t, told[i]); got != (event{lossOf(3), want}) || len(told[i]) > 0 {
					t.Errorf("replica %d is told %v, and %d times more", i, got, len(told[i]))
				}
			}
		})
	}
}

// TestAPollFromBeforeAHoldDoesNotEndIt has it applied after the hold that this process has recorded.
func TestAPollFromBeforeAHoldDoesNotEndIt(t *testing.T) {
	held := guard.Record{Since: 1}
	k := &keeper[int64]{now: view[int64]{saw: &poll.Result{}, state: state[int64]{hold: held}}, heldAt: time.Second}
	if k.failing(&poll.Result{Sent: time.Second - 1}); k.now.hold != held {
		t.Error("it is over")
	}
	if k.failing(&poll.Result{Sent: time.Second}); k.now.hold == held {
		t.Error("a later one does not count")
	}
}

// TestTheEndOfAHoldIsToldHoweverSoonTheNextDocumentComes has two documents be stored between two polls,
// of which the first has ended the hold.
func TestTheEndOfAHoldIsToldHoweverSoonTheNextDocumentComes(t *testing.T) {
	b := realServer(t) // a transaction
	src := newSource(2)
	events, told := holdEvents()
	o := guarded(src, time.Hour)
	o.TTL = time.Minute
	_, r := replicaWith(t, Options{URL: b.url, Events: events}, o)
	get(t, r)
	src.version.Store(101)
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	until(t, r, "it is held back", isHeld)
	seq, err := b.client.HGet(t.Context(), key, "seq").Int()
	must(t, err)
	now := time.Now().UnixMilli()
	_, err = b.client.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.HSet(t.Context(), key, "seq", seq+2, "body", body(4), "etag", ETag(body(4)), "fetched_at", now, "fresh_until", now+60_000)
		tx.HSet(t.Context(), books, "seq", seq+2, "released", fmt.Sprint(seq+1, " expired"))
		return nil
	})
	must(t, err)
	until(t, r, "the next is served", func(a Answer[int64]) bool { return a.Value == 4 })
	toldOnce(t, told, guard.Expired)
}

// TestTheClockOfAHoldIsNotInherited has a loss be held back for most of its time, the CMS fail for the
// rest of it, and then send another loss.
func TestTheClockOfAHoldIsNotInherited(t *testing.T) {
	src, r := holding(t, anyStore(t), time.Second, 5)
	began := r.Snapshot().HeldBack.Since
	src.fail(errDown)
	until(t, r, "the CMS fails", func(Answer[int64]) bool { return r.Snapshot().Failures > 0 })
	eventually(t, "the time is over", func() bool { return time.Since(began) > 1200*time.Millisecond })
	for _, version := range []int64{5, 3} { // time in which it failed does not count; a worse loss begins anew
		src.version.Store(version)
		src.fail(nil)
		until(t, r, "it is held back", func(a Answer[int64]) bool {
			if a.Value != 2 {
				t.Fatalf("version %d is served", a.Value)
			}
			h := r.Snapshot().HeldBack
			return h != nil && h.Reason == lossOf(version) && isHeld(a)
		})
	}
	if left := time.Until(*r.Snapshot().HeldBack.Until); left < 500*time.Millisecond {
		t.Errorf("it ends in %v", left)
	}
	until(t, r, "it is taken in the end", func(a Answer[int64]) bool { return a.Value == 3 })
}

// TestDuringAHoldTheCMSIsAskedOncePerTTL, and at its end.
func TestDuringAHoldTheCMSIsAskedOncePerTTL(t *testing.T) {
	src := newSource(2)
	o := guarded(src, 3*time.Second)
	o.TTL = time.Second
	_, one := replica(t, embeddedURL(t), o)
	get(t, one)
	src.version.Store(3)
	until(t, one, "it is held back", isHeld)
	loads, began := src.loads.Load(), time.Now()
	until(t, one, "it is taken", func(a Answer[int64]) bool { return a.Value == 3 })
	if n, took := src.loads.Load()-loads, time.Since(began); n > 4 || took > 3500*time.Millisecond {
		t.Errorf("%d loads in %v", n, took)
	}
	o = guarded(src, time.Second/2)
	o.TTL = time.Minute
	b := anyStore(t)
	_, two := replica(t, b.url, o)
	get(t, two)
	src.version.Store(1)
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	until(t, two, "it is held back", isHeld)
	until(t, two, "it is taken long before the TTL is over", func(a Answer[int64]) bool { return a.Value == 1 })
}

// TestALossInStepsIsOne has a list shrink by less than half at a time, and by more together.
func TestALossInStepsIsOne(t *testing.T) {
	b := anyStore(t)
	src := newSource(100)
	o := guarded(src, time.Hour)
	o.Guard = func(before, now int64) guard.Findings {
		if 2*now >= before {
			return nil
		}
		return guard.Findings{{List: "banners", Kind: guard.Shrunk, Before: int(before), After: int(now), Items: int(now), Verdict: guard.ForHold}}
	}
	s, r := replica(t, b.url, o)
	kept := func(version int64) {
		t.Helper()
		src.version.Store(version)
		until(t, r, "it is served", func(a Answer[int64]) bool { return a.Value == version })
		eventually(t, "it is in the history", func() bool { return b.client.HExists(t.Context(), past, lease.VersionOf(body(version))).Val() })
	}
	for _, version := range []int64{100, 80, 60} {
		kept(version)
	}
	src.version.Store(40)
	until(t, r, "it is held back", isHeld)
	if h := r.Snapshot().HeldBack; h.Reason != "40 banners, 100 before" {
		t.Errorf("%+v", h)
	}
	accepting(t, s)
	kept(40) // from then on, what was before does not count
	kept(25)
	src.version.Store(15)
	until(t, r, "it is held back", isHeld)
	must(t, b.client.Del(t.Context(), key).Err())
	kept(15)
	kept(10)
	must(t, testkit.Retry(func() error { // a fill may come in between
		_, err := s.Restore(t.Context(), "banners", lease.VersionOf(body(100)), time.Second, "a test", nil)
		return err
	}))
	until(t, r, "it is held back", isHeld)
	if h := r.Snapshot().HeldBack; h.Reason != "10 banners, 100 before" {
		t.Errorf("%+v", h)
	}
}

// TestAHoldOutlastsTheDataOfRedis (rule 8) has Redis come back empty, and a replica start then: the hold is the
// same one, and no second notification is sent.
func TestAHoldOutlastsTheDataOfRedis(t *testing.T) {
	server := startRedis(t)
	src := newSource(2)
	events, told := holdEvents()
	_, r := replicaWith(t, Options{URL: server.URL(), Events: events}, guarded(src, time.Hour))
	get(t, r)
	src.version.Store(101)
	until(t, r, "it is held back", isHeld)
	since, fetched := r.Snapshot().HeldBack.Since, server.Client().HGet(t.Context(), key, "fetched_at").Val()
	server.Restart()
	eventually(t, "the copy is back in Redis, as it was", func() bool {
		if a := get(t, r); a.Value != 2 {
			t.Fatalf("version %d is served", a.Value)
		}
		now := server.Client().HGetAll(t.Context(), key).Val()
		return now["body"] == string(body(2)) && now["fetched_at"] == fetched
	})
	_, other := replica(t, server.URL(), guarded(src, time.Hour))
	for _, r := range []*Reader[int64]{r, other} {
		heldBack(t, r)
		if now := r.Snapshot().HeldBack.Since; !now.Equal(since) {
			t.Errorf("it is held back since %v, not %v", now, since)
		}
	}
	if end := testkit.Receive(t, told); end != "" || len(told) > 0 {
		t.Errorf("told %q, and %d times more", end, len(told))
	}
}

func TestADeployOfAnotherMappingEndsNoHold(t *testing.T) {
	b := anyStore(t)
	src, r := holding(t, b, time.Hour, 101)
	since := r.Snapshot().HeldBack.Since
	must(t, r.store.Close())
	o := guarded(src, time.Hour)
	o.Source = "another"
	_, r = replica(t, b.url, o)
	loads := src.loads.Load()
	until(t, r, "it has asked the CMS", func(a Answer[int64]) bool {
		if a.Value != 2 {
			t.Fatalf("version %d is served", a.Value)
		}
		return src.loads.Load() > loads+1
	})
	if h := r.Snapshot().HeldBack; h == nil || !h.Since.Equal(since) {
		t.Errorf("%+v", h)
	}
	src.version.Store(4)
	until(t, r, "what has no loss is taken", func(a Answer[int64]) bool { return a.Value == 4 && r.Snapshot().HeldBack == nil })
}

// TestAReplicaThatStartsCutOffEndsNoHold has it load, and serve, what is held back elsewhere, and then
// reach Redis, whose document it yields to.
func TestAReplicaThatStartsCutOffEndsNoHold(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	way := redistest.NewRelay(t, strings.TrimPrefix(b.url, "redis://"))
	way.Cut()
	_, one := replica(t, b.url, guarded(src, time.Hour))
	get(t, one)
	src.version.Store(101)
	until(t, one, "it is held back", isHeld)
	_, two := readerWith(t, Options{URL: way.URL()}, guarded(src, time.Hour))
	until(t, two, "it serves what it can get", func(a Answer[int64]) bool { return a.Value == 101 })
	way.Heal()
	until(t, two, "it yields", func(a Answer[int64]) bool { return a.Value == 2 })
	for began := poll.Now(); poll.Now() < began+time.Second/2; poll.Sleep(t.Context(), time.Millisecond) {
		for _, r := range []*Reader[int64]{one, two} {
			if a := get(t, r); a.Value != 2 {
				t.Fatalf("version %d is served", a.Value)
			}
		}
	}
	heldBack(t, two)
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
	until(t, r, "it is held back", isHeld)
	eventually(t, "without a copy, nothing is shown to be held back", func() bool { return r.Snapshot().HeldBack == nil })
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
			judge, events := o.Guard, Events{}
			if inGuard {
				o.Guard = func(held, loaded int64) guard.Findings { pause(); return judge(held, loaded) }
			} else {
				events.Held = func(string, *guard.Hold, guard.End) { pause() }
			}
			_, r := readerWith(t, Options{URL: b.url, Events: events}, o)
			get(t, r)
			src.version.Store(101)
			answers := make(chan error)
			ask := func() {
				_, err := r.Get(t.Context())
				answers <- err
			}
			eventually(t, "the copy is stale", func() bool { return r.view.Load().copy.standing(poll.Now()) == copyStale })
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
			eventually(t, "the copy has ended", func() bool { return r.view.Load().copy.standing(poll.Now()) == copyNone })
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
	server := startRedis(t)
	b := backend{server.URL(), server.Client()}
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.BackoffFirst, o.BackoffMost, o.LastGood = time.Minute, time.Minute, t.TempDir()
	s, r := replica(t, b.url, o)
	get(t, r)
	eventually(t, "the last good copy is kept", func() bool { _, err := lastgood.At(o.LastGood, "banners").Load(); return err == nil })
	must(t, s.Close())
	server.Restart() // empty
	src.version.Store(101)
	_, r = replica(t, b.url, o)
	heldBack(t, r)
	if got := b.client.HGet(t.Context(), key, "body").Val(); got != string(body(2)) {
		t.Errorf("Redis has %q: the baseline went back with the hold", got)
	}
	o.LastGood = "" // a replica without a copy has that
	_, other := replica(t, b.url, o)
	heldBack(t, other)
}

// TestAHoldPausesOnlyWhoHasACopy has a copy be removed, or be none that can be used, while another
// document is held back for it.
func TestAHoldPausesOnlyWhoHasACopy(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]any{{"HDEL", key, "etag"}, {"HDEL", key, "etag", "body"}, {"HSET", key, "body", "x"}, {"HSET", key, "etag", "x"}} {
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
			if stored := b.client.HGet(t.Context(), key, "body").Val(); fields[0] == "HSET" && stored == string(body(101)) {
				t.Error("it has stored that, though something is held back")
			}
		})
	}
}

func TestAReplicaOnItsOwnHoldsBackToo(t *testing.T) {
	url := embeddedURL(t)
	src := newSource(2)
	relayed := redistest.NewRelay(t, strings.TrimPrefix(url, "redis://"))
	o := guarded(src, time.Hour)
	o.TTL = time.Second / 2
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

// TestAHoldThatEndedWithoutRedisDoesNotComeBack has the CMS recover while Redis is unreachable, or refuses
// what it sends: Redis still has the hold.
func TestAHoldThatEndedWithoutRedisDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, refuses := range map[string]bool{"unreachable": false, "refuses": true} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource(2)
			way := redistest.NewRelay(t, server.Addr)
			events, told := holdEvents()
			_, r := replicaWith(t, Options{URL: way.URL(), Events: events}, guarded(src, time.Hour))
			get(t, r)
			src.version.Store(101)
			until(t, r, "it is held back", isHeld)
			end := func() {}
			if refuses {
				end = refusals["NOREPLICAS"](t, server)
			} else {
				way.Cut()
			}
			src.version.Store(4)
			until(t, r, "the next is taken", func(a Answer[int64]) bool { return a.Value == 4 })
			if refuses {
				for range 3 {
					received(t, r)
				}
			}
			end()
			way.Heal()
			until(t, r, "it is stored", func(a Answer[int64]) bool { return a.Status.Detail == DetailMemory })
			toldOnce(t, told, guard.Recovered)
		})
	}
}

// TestAHoldIsOneWhoeverFoundItFirst has a replica without Redis hold back what another one records a
// moment later: also after a hold that has ended.
func TestAHoldIsOneWhoeverFoundItFirst(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	way := redistest.NewRelay(t, strings.TrimPrefix(b.url, "redis://"))
	events, told := holdEvents()
	_, one := replica(t, b.url, guarded(src, time.Hour))
	_, r := replicaWith(t, Options{URL: way.URL(), Events: events}, guarded(src, time.Hour))
	get(t, one)
	get(t, r)
	for _, version := range []int64{101, 103} {
		way.Cut()
		eventually(t, "Redis is unreachable", func() bool { return !r.store.Up() })
		src.version.Store(version)
		until(t, r, "it is held back without Redis", func(Answer[int64]) bool { return r.Snapshot().HeldBack != nil })
		poll.Sleep(t.Context(), 5*time.Millisecond)
		until(t, one, "it is held back", isHeld)
		way.Heal()
		until(t, r, "it is the other's hold", func(Answer[int64]) bool {
			h, recorded := r.Snapshot().HeldBack, one.Snapshot().HeldBack
			return h != nil && recorded != nil && h.Since.Equal(recorded.Since) && !r.Snapshot().Fetching
		})
		src.version.Store(2 * version)
		for _, r := range []*Reader[int64]{r, one} {
			until(t, r, "it is over", func(a Answer[int64]) bool { return a.Value == 2*version && r.Snapshot().HeldBack == nil })
		}
		toldOnce(t, told, guard.Recovered)
	}
}

// TestAHoldWhoseRecordIsNotAnsweredIsOne has Redis record a hold, and the reply not come.
func TestAHoldWhoseRecordIsNotAnsweredIsOne(t *testing.T) {
	b := anyStore(t)
	_, err := another().Hold(t.Context(), b.client, "", lease.Holding{}) // its script is there
	must(t, err)
	src := newSource(2)
	way := redistest.NewRelay(t, strings.TrimPrefix(b.url, "redis://"))
	o := guarded(src, time.Hour)
	o.StaleWhileRevalidate, o.TTL = 0, 2*time.Second // visitors wait, for one fetch
	events, told := holdEvents()
	s, r := replicaWith(t, Options{URL: way.URL(), Timeout: leastTimeout, Events: events}, o)
	_, other := replica(t, b.url, o)
	get(t, r)
	left := way.Lose(`"kind"`, 1)
	src.version.Store(101)
	for _, r := range []*Reader[int64]{r, other} {
		heldBack(t, r)
	}
	eventually(t, "no reply is waited for", func() bool { return left() == 0 && !r.Snapshot().Fetching && s.Answering() })
	until(t, r, "it is still held back", isHeld)
	now := b.client.HGet(t.Context(), books, "lease").Val()
	if loads := src.loads.Load(); !strings.HasSuffix(now, ":held") || loads < 2 || len(told) != 1 {
		t.Errorf("the lease is %q after %d loads, and %d holds were told", now, loads, len(told))
	}
}
