package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// The campaigns pass with single rules of the core left out: each has its test here, or in the file that
// its name stands in below.

// bound is how soon after a purge no reader returns anything older.
const bound = 50 * time.Millisecond

// one is a replica that waits for Redis no longer than usual, and tries the CMS again soon.
func one(t testing.TB, url string, src Loader, change func(*ReaderOptions[int64])) *Reader[int64] {
	t.Helper()
	o := options(src)
	o.StaleWait, o.BackoffFirst, o.BackoffMost = 200*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
	if change != nil {
		change(&o)
	}
	_, r := readerWith(t, prompt(url), o)
	return r
}

// said is what an answer was: its version and detail, or "error".
func said(t testing.TB, r *Reader[int64]) string {
	t.Helper()
	a, err := r.Get(t.Context())
	if err != nil {
		return "error"
	}
	return fmt.Sprint(a.Value, " ", a.Status.Detail)
}

func saying(t testing.TB, r *Reader[int64], want string) {
	t.Helper()
	eventually(t, want, func() bool { return said(t, r) == want })
}

// busy reads on each replica for so long, and fails the test for an error.
func busy(t testing.TB, lasting time.Duration, readers ...*Reader[int64]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var all sync.WaitGroup
	for _, r := range readers {
		for range 4 {
			all.Go(func() {
				for poll.Sleep(ctx, time.Millisecond) {
					if _, err := r.Get(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// Rule 1: a process that has never asked counts a set with a history and without a document as a purge.
func TestAPurgeCountsForAReplicaThatStartedCutOff(t *testing.T) {
	s, src := startRedis(t), newSource()
	way := redistest.NewRelay(t, s.Addr)
	b := one(t, s.URL(), src, nil)
	saying(t, b, "1 memory")
	way.Cut()
	a := one(t, way.URL(), src, nil)
	saying(t, a, "1 redis-away")
	must(t, s.Client().Del(t.Context(), key).Err())
	src.fail(errDown)
	way.Heal()
	saying(t, a, "error")
	saying(t, b, "error")
}

// Rule 1: a FLUSHALL that takes long enough to cut the connections is a flush all the same.
func TestALongFlushIsAPurge(t *testing.T) {
	s, src := startRedis(t), newSource()
	a := one(t, s.URL(), src, nil)
	saying(t, a, "1 memory")
	src.fail(errDown)
	_ = s.Client().Eval(t.Context(), `redis.call('flushall') for i = 1, 3e8 do end return 1`, nil).Err() // it may take longer than the client waits
	saying(t, a, "error")
}

// Rule 2: a change that a poll has shown counts, also while the body of what is there cannot be read.
func TestACopyStaysWhileTheNextIsReadUnlessAPurgeCameBetween(t *testing.T) {
	at := func(seq int64, holds lease.Content) lease.Generation {
		g := lease.Generation{Set: "a", Seq: seq, Holds: holds}
		if holds == lease.Document {
			g.ETag, g.FetchedAt = fmt.Sprint(seq), seq
		}
		return g
	}
	const waits, stale, stays, goes, isLost = "waits", "stale", "stays", "goes", "lost"
	for name, c := range map[string]struct {
		was, now lease.Generation
		source   source
		reading  time.Duration // for so long
		want     string
	}{
		"the next document":                {at(2, lease.Document), at(3, lease.Document), stored, 0, waits},
		"it cannot be read":                {at(2, lease.Document), at(3, lease.Document), stored, time.Second, stale},
		"a purge can have come between":    {at(2, lease.Document), at(4, lease.Document), stored, 0, goes},
		"also of what Redis refused":       {at(2, lease.Document), at(4, lease.Document), refused, 0, goes},
		"from a placeholder":               {at(1, lease.Placeholder), at(2, lease.Document), refused, time.Second, stays},
		"from nothing, after a purge":      {at(1, lease.Nothing), at(2, lease.Document), refused, 0, goes},
		"an older snapshot":                {at(3, lease.Document), at(2, lease.Document), stored, 0, isLost},
		"an earlier fetch than the copy's": {at(2, lease.Document), lease.Generation{Set: "a", Seq: 3, Holds: lease.Document, ETag: "3", FetchedAt: 1}, refused, 0, isLost},
	} {
		now := poll.Now()
		before := &cached[int64]{doc: &Document{ETag: "copy"}, source: c.source, fetched: 2, mark: 1, ahead: now + time.Hour, fresh: now + time.Hour, usable: now + time.Hour}
		k := &keeper[int64]{Reader: &Reader[int64]{store: &Store{trust: 45 * time.Millisecond}}, reading: &reread[int64]{since: now - c.reading}}
		k.now = view[int64]{asked: true, saw: &poll.Result{Record: lease.Record{Generation: c.was}}, state: state[int64]{copy: before}}
		p := &poll.Result{Sent: now, Record: lease.Record{Generation: c.now, FreshUntil: 1}}
		after, withheld := k.next(before, became(&c.was, c.now, true, 0), p)
		got := stays
		switch {
		case after == nil:
			got = goes
		case withheld:
			got = waits
		case after.source == gone:
			got = isLost
		case after.fresh <= now:
			got = stale
		}
		if got != c.want {
			t.Errorf("%s: the copy %s, want %s", name, got, c.want)
		}
	}
}

// Rule 2: a body that could be read at no time is fetched anew, and so is one that cannot be used; not one
// of which another has taken the place.
func TestABodyThatCannotBeReadIsFetchedAnew(t *testing.T) {
	_, r := replica(t, embeddedURL(t), options(newSource()))
	of := lease.Generation{Set: "a", Seq: 2, Holds: lease.Document, ETag: "x"}
	for etag, anew := range map[string]bool{"": true, "x": true, "y": false} {
		k := &keeper[int64]{Reader: r, reading: &reread[int64]{of: of, etag: etag}}
		if k.took(k.reading); (k.damaged == of) != anew {
			t.Errorf("the etag of what was read is %q, and it is fetched anew: %t", etag, !anew)
		}
	}
}

// Rule 3: a lock record that is gone is no purge, and a hash without body or etag is one.
func TestRemovedFieldsArePurges(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		readers := []*Reader[int64]{one(t, b.url, src, nil), one(t, b.url, src, nil)}
		settled := func() {
			for _, r := range readers {
				saying(t, r, fmt.Sprint(src.version.Load(), " memory"))
			}
		}
		for what, args := range map[string][]any{
			"body removed": {"HDEL", key, "body"}, "etag removed": {"HDEL", key, "etag"}, "another type": {"SET", key, "x"},
			"renamed": {"RENAME", key, "away"}, "document and lock record": {"DEL", key, books},
		} {
			settled()
			want := src.version.Add(1)
			must(t, b.client.Do(t.Context(), args...).Err())
			poll.Sleep(t.Context(), bound)
			for _, r := range readers {
				if got := get(t, r); got.Value != want {
					t.Errorf("%s: %+v, want version %d", what, got, want)
				}
			}
		}
		settled()
		loads := src.loads.Load()
		must(t, b.client.Set(t.Context(), books, "x", 0).Err())
		busy(t, 2*bound, readers...)
		must(t, b.client.Del(t.Context(), books).Err())
		busy(t, 2*bound, readers...)
		if n := src.loads.Load() - loads; n > 0 {
			t.Errorf("%d loads since the lock record is gone", n)
		}
	})
}

// Rule 4: an expired document is no purge, what expires is a document, and what is acquired outlasts
// its lease.
func TestAnExpiryIsNoPurge(t *testing.T) {
	s, src := startRedis(t), newSource()
	short := func(r *ReaderOptions[int64]) {
		r.TTL, r.StaleWhileRevalidate, r.StaleIfError = 100*time.Millisecond, 0, time.Second
	}
	b := one(t, s.URL(), src, short)
	saying(t, b, "1 memory")
	src.fail(errDown) // the other one stores nothing, for its own time
	a := one(t, s.URL(), src, func(r *ReaderOptions[int64]) { short(r); r.StaleIfError = time.Minute })
	eventually(t, "it has the copy", func() bool { return said(t, a)[:2] == "1 " })
	eventually(t, "it has expired", func() bool { return s.Client().Exists(t.Context(), key).Val() == 0 }) // nobody reads: an acquire would prolong it
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); poll.Sleep(t.Context(), 10*time.Millisecond) {
		if got := said(t, a); got[:2] != "1 " {
			t.Fatalf("the copy may still be served here: %s", got)
		}
	}
	saying(t, b, "error")
}

// Rules 4 and 6: a document of Redis that expires takes no newer copy with it that Redis refused.
func TestAnExpiryOfAnOlderDocumentIsNoPurge(t *testing.T) {
	s, src := startRedis(t), newSource()
	a := one(t, s.URL(), src, func(r *ReaderOptions[int64]) {
		r.TTL, r.StaleWhileRevalidate, r.StaleIfError = 200*time.Millisecond, 0, 800*time.Millisecond
	})
	saying(t, a, "1 memory")
	configure(t, s, "maxmemory", "1")
	src.version.Store(2)
	saying(t, a, "2 redis-refused")
	loads, began := src.loads.Load(), time.Now()
	eventually(t, "version 1 has expired", func() bool {
		if got := said(t, a); got != "2 redis-refused" {
			t.Fatal(got)
		}
		return s.Client().Exists(t.Context(), key).Val() == 0
	})
	if got := said(t, a); got[:2] != "2 " {
		t.Error(got)
	}
	if n, most := src.loads.Load()-loads, int64(time.Since(began)/(200*time.Millisecond))+3; n > most {
		t.Errorf("%d loads, want %d at most", n, most)
	}
}

// Rule 5: a lease that is extended lasts, and a dead owner costs two seconds at most.
func TestADeadOwnerCostsTwoSeconds(t *testing.T) {
	s, src, slow := startRedis(t), newSource(), newSource(100)
	way := redistest.NewRelay(t, s.Addr)
	release := slow.hold()
	defer release()
	owner := one(t, way.URL(), slow, nil)
	got := make(chan string, 1)
	go func() { got <- said(t, owner) }()
	testkit.Receive(t, slow.entered)
	a := one(t, s.URL(), src, nil)
	poll.Sleep(t.Context(), 2500*time.Millisecond) // longer than a lease: it is extended
	if till, err := s.Client().HGet(t.Context(), books, "lease_until").Int64(); till < time.Now().UnixMilli() || src.loads.Load() > 0 {
		t.Errorf("the lease lasts until %d (%v), after %d loads of another", till, err, src.loads.Load())
	}
	way.Hang()
	began := time.Now()
	if got := get(t, a); got.Value != 1 {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it was waited for for %v", took)
	}
	way.Heal()
	release()
	testkit.Receive(t, got)
	if v := s.Client().HGet(t.Context(), key, "body").Val(); v != string(body(1)) {
		t.Errorf("the fill of a lapsed lease was stored: %s", v)
	}
}

// Rule 5: an older acquire of the same owner that arrives late is refused.
func TestALateAcquireIsRefused(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		ask := func(token string) any {
			return ride(t, b.client, lease.Acquire(lease.Request{Token: token, Length: time.Minute, TTL: time.Minute, Source: "test"}))
		}
		for _, c := range []struct{ token, want string }{
			{"one/2", "granted"}, {"one/1", "late"}, {"one/3", "granted"}, {"another/9", "held"}, {"one/2", "late"},
		} {
			if got := ask(c.token); got != c.want {
				t.Errorf("%s: %v, want %s", c.token, got, c.want)
			}
		}
		if now := b.client.HGet(t.Context(), books, "lease").Val(); now != "one/3" {
			t.Errorf("%s has the lease", now)
		}
	})
}

// Rule 6: what was loaded before a purge is not kept because Redis refuses it.
func TestAPurgeDuringALoadThatRedisRefusesCounts(t *testing.T) {
	s, src := startRedis(t), newSource()
	r := one(t, s.URL(), src, func(o *ReaderOptions[int64]) { o.TTL = 100 * time.Millisecond })
	saying(t, r, "1 memory")
	configure(t, s, "maxmemory", "1") // which permits DEL
	src.version.Store(2)
	release := src.hold()
	for len(src.entered) == 0 {
		get(t, r)
		poll.Sleep(t.Context(), time.Millisecond)
	}
	src.version.Store(3)
	must(t, s.Client().Del(t.Context(), key).Err())
	received(t, r)
	release()
	until(t, r, "the new version", func(a Answer[int64]) bool {
		if a.Value < 3 {
			t.Fatalf("what was fetched before the purge is served: %+v", a)
		}
		return true
	})
}

// Rule 6: whatever Redis does with a write, there is one fetch per TTL of each replica, and purges of what
// Redis has are received.
func TestARefusedWriteCostsOneFetchPerTTL(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	for name, why := range map[string]string{"OOM": "OOM", "NOREPLICAS": "NOREPLICAS", "a relay cuts large values": "fill"} {
		t.Run(name, func(t *testing.T) {
			s, src := startRedis(t), newSource()
			way, end := redistest.NewRelay(t, s.Addr), func() {}
			var large atomic.Bool
			if refuse := refusals[name]; refuse != nil {
				end = refuse(t, s)
			} else {
				large.Store(true)
				way.Narrow(size)
			}
			load := LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
				if large.Load() {
					return padded(src, size).Load(ctx, key, held)
				}
				return src.Load(ctx, key, nil)
			})
			var all []*Reader[int64]
			for range 2 {
				all = append(all, one(t, way.URL(), load, func(r *ReaderOptions[int64]) { r.TTL = 250 * time.Millisecond }))
			}
			busy(t, 2*time.Second, all...)
			loads := src.loads.Load()
			saying(t, all[0], "1 redis-refused")
			if s := all[0].store; !strings.Contains(s.Refusing(), why) || !s.Up() {
				t.Errorf("refusing %q; up: %t", s.Refusing(), s.Up())
			}
			if loads > 18 || loads < 4 {
				t.Errorf("%d loads of 2 replicas in 8 TTLs", loads)
			}
			if large.Load() && all[0].view.Load().saw.Conn == 1 {
				t.Error("its connections were not replaced: the two may reach two servers")
			}
			end()
			src.version.Store(2)
			large.Store(false)
			saying(t, all[0], "2 memory")
			eventually(t, "it refuses no more", func() bool { return said(t, all[0]) == "2 memory" && all[0].store.Refusing() == "" })
		})
	}
}

// Rule 7: a restore is a document, that DEL and HSET fresh_until 0 end, and that is due at its
// fresh_until; it raises the number as placeholder and fill would, and is written only where it was read.
func TestARestoreIsADocument(t *testing.T) {
	s, src := startRedis(t), newSource()
	a, b := one(t, s.URL(), src, nil), one(t, s.URL(), src, nil)
	b.store.o.StaleWindow = time.Hour
	saying(t, a, "1 memory")
	saying(t, b, "1 memory")
	var first string
	eventually(t, "it is kept", func() bool {
		all := names(t, a.store)
		if len(all) == 1 {
			first = all[0]
		}
		return first != ""
	})
	src.version.Store(2)
	must(t, s.Client().Del(t.Context(), key).Err())
	saying(t, a, "2 memory")
	for name, end := range map[string]func() error{
		"DEL":                func() error { return s.Client().Del(t.Context(), key).Err() },
		"HSET fresh_until 0": func() error { return s.Client().HSet(t.Context(), key, "fresh_until", 0).Err() },
	} {
		loads, seq := src.loads.Load(), where(t, s.Client()).Seq
		_, err := b.store.Restore(t.Context(), "banners", first, time.Hour, "me", nil)
		must(t, err)
		saying(t, a, "1 restored")
		saying(t, b, "1 restored")
		if c := a.view.Load().copy; c.standing(poll.Now()+50*time.Minute) != copyFresh {
			t.Error("it is due before its fresh_until")
		}
		if now := where(t, s.Client()).Seq; now != seq+1 || src.loads.Load() != loads {
			t.Errorf("the number was %d, and is %d; %d loads", seq, now, src.loads.Load()-loads)
		}
		if ttl := s.Client().TTL(t.Context(), key).Val(); ttl < 119*time.Minute {
			t.Errorf("it expires in %v, and may be served for two hours", ttl)
		}
		must(t, end())
		saying(t, a, "2 memory")
		saying(t, b, "2 memory")
		if n := src.loads.Load() - loads; n != 1 {
			t.Errorf("%d loads after %s", n, name)
		}
	}
	// Where there is no document, the number rises by two: a load under way is void, and the purge stays one.
	must(t, s.Client().Del(t.Context(), key).Err())
	seq := where(t, s.Client()).Seq
	_, err := b.store.Restore(t.Context(), "banners", first, 2*time.Second, "me", nil)
	must(t, err)
	if now := where(t, s.Client()).Seq; now != seq+2 {
		t.Errorf("the number was %d, and is %d", seq, now)
	}
	saying(t, a, "1 restored")
	saying(t, a, "2 memory") // once it is due
	if _, err := b.store.Restore(t.Context(), "banners", first, time.Hour, "me", func(*Document) error { return context.Canceled }); err == nil {
		t.Error("restored what cannot be served")
	}
}

// Rule 9: the stale windows of a soft purge count from when it was seen.
func TestASoftPurgeEndsTheStaleWindowsEarlier(t *testing.T) {
	s, src := startRedis(t), newSource()
	a := one(t, s.URL(), src, func(r *ReaderOptions[int64]) {
		r.StaleWhileRevalidate, r.StaleIfError = 0, 600*time.Millisecond
	})
	saying(t, a, "1 memory")
	src.fail(errDown)
	purged := time.Now()
	must(t, s.Client().HSet(t.Context(), key, "fresh_until", 0).Err())
	saying(t, a, "1 stale-if-error")
	saying(t, a, "error")
	if took := time.Since(purged); took < 500*time.Millisecond || took > 1500*time.Millisecond {
		t.Errorf("served for %v after the purge", took)
	}
}

// Rule 10: the answer to who waited stays in the view until the next load ends, though a purge takes the
// copy.
func TestTheAnswerToWhoWaitedStays(t *testing.T) {
	_, r := replica(t, embeddedURL(t), options(newSource()))
	asked := poll.Now()
	brought := &cached[int64]{doc: &Document{}, value: 7, fresh: time.Hour, usable: time.Hour}
	k := &keeper[int64]{Reader: r, now: view[int64]{asked: true, saw: &poll.Result{Record: lease.Record{Generation: lease.Generation{Set: "a", Seq: 2, Holds: lease.Document}}}}}
	k.now.copy = brought
	k.ended(&flight[int64]{began: asked}, "stored", &answer[int64]{copy: brought})
	k.apply(&poll.Result{Sent: poll.Now(), Record: lease.Record{Generation: lease.Generation{Set: "a", Seq: 2}}})
	w := waiting[int64]{r: r, asked: asked}
	if a, _, _, err := w.decide(t.Context(), &k.now, poll.Now()); err != nil || a.Value != 7 || k.now.copy != nil {
		t.Errorf("%+v, %v", a, err)
	}
	w.asked = poll.Now() + 1
	if a, _, _, _ := w.decide(t.Context(), &k.now, w.asked); a.Document != nil {
		t.Error("who asks after that load began gets its answer, too")
	}
}

// Rule 11: an exchanged server is noticed by a fresh connection, a demoted one by its role.
func TestAnExchangedServerIsNoticed(t *testing.T) {
	first, second, src := startRedis(t), redistest.Start(t), newSource()
	way := redistest.NewRelay(t, first.Addr)
	a := one(t, way.URL(), src, nil)
	saying(t, a, "1 memory")
	src.version.Store(2)
	saying(t, one(t, second.URL(), src, nil), "2 memory")
	way.Lead(second.Addr)
	began := time.Now()
	saying(t, a, "2 memory")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

func TestADemotedServerIsNoticed(t *testing.T) {
	s, other, src := startRedis(t), redistest.Start(t), newSource()
	a := one(t, s.URL(), src, nil)
	saying(t, a, "1 memory")
	must(t, s.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", other.Port).Err())
	saying(t, a, "1 redis-away")
	must(t, s.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	saying(t, a, "1 memory")
}

// Rule 11: a reply that comes again is no answer to the next poll.
func TestARepeatedReplyIsNoAnswer(t *testing.T) {
	s, src := startRedis(t), newSource()
	way := redistest.NewRelay(t, s.Addr)
	a := one(t, way.URL(), src, nil)
	saying(t, a, "1 memory")
	way.Stick()
	src.version.Store(2)
	must(t, s.Client().Del(t.Context(), key).Err())
	poll.Sleep(t.Context(), bound)
	if got := said(t, a); got != "1 redis-away" {
		t.Errorf("after a purge: %s", got)
	}
	way.Heal()
	saying(t, a, "2 memory")
}
