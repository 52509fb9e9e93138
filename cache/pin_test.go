package cache

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// pinnedAt reports whether the reader serves that version, pinned.
func pinnedAt(r *Reader[int64], t *testing.T, version int64) bool {
	a, err := r.Get(t.Context())
	return err == nil && a.Value == version && a.Status.Detail == DetailPinned && !a.Status.Stale && a.Document.PinnedUntil.After(time.Now())
}

// restore has a version served for that long, as an operator does.
func restore(t *testing.T, s *Store, version int64, pin time.Duration) (until time.Time) {
	t.Helper()
	until, err := s.Restore(t.Context(), "banners", lease.VersionOf(body(version)), pin, "me")
	must(t, err)
	return until
}

// counted is a replica that counts soft purges.
func counted(t *testing.T, url string, o ReaderOptions[int64], soft *atomic.Int64) (*Store, *Reader[int64]) {
	t.Helper()
	return replicaWith(t, Options{URL: url, Events: Events{Purged: func(_, kind string) {
		if kind == "soft" {
			soft.Add(1)
		}
	}}}, o)
}

func TestARestoredDocumentIsServedByAllAndNothingIsFetched(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, soft := newSource(), atomic.Int64{}
		o := described(src)
		s, r := counted(t, b.url, o, &soft)
		change(t, b, src, r, 1, 2)
		o.TTL, o.Source, o.Always = 50*time.Millisecond, "another", true // whose document would be due at once
		_, other := replica(t, b.url, o)
		if until := restore(t, s, 1, time.Hour); time.Until(until) > 61*time.Minute || time.Until(until) < 59*time.Minute {
			t.Error(until)
		}
		if all, err := s.History(t.Context(), "banners"); err != nil || len(all) != 2 || all[0].Changes != "restored" || all[1].Changes != "1 to 2" {
			t.Errorf("%+v, %v", all, err)
		}
		for _, r := range []*Reader[int64]{r, other} {
			eventually(t, "the first version is served", func() bool { return pinnedAt(r, t, 1) })
		}
		if a := get(t, r); a.Document.PinnedBy != "me" || a.Document.UpstreamETag != "" || time.Since(a.Document.ChangedAt) > time.Minute || time.Since(a.Document.FetchedAt) > time.Minute {
			t.Errorf("%+v", a.Document)
		}
		loads := src.loads.Load()
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		_, third := replica(t, b.url, o) // which has to ask Redis
		watch.Sleep(t.Context(), 100*time.Millisecond)
		for _, r := range []*Reader[int64]{r, other, third} {
			eventually(t, "it is pinned after a soft purge", func() bool { return pinnedAt(r, t, 1) })
		}
		eventually(t, "the soft purge is counted", func() bool { return soft.Load() == 1 })
		must(t, b.client.HSet(t.Context(), key, "accept", 1).Err()) // another change, while fresh_until is 0 still
		received(t, r)
		if pinnedAt(r, t, 1); soft.Load() != 1 {
			t.Errorf("%d soft purges, of one", soft.Load())
		}
		if l, err := another().Acquire(t.Context(), b.client, lease.Request{Token: "x", Length: time.Second, TTL: time.Second, Source: "third", Newer: time.Now().UnixMilli() + 1}); err != nil || l.Outcome != lease.Fresh {
			t.Errorf("a lease while it is pinned: %+v, %v", l, err)
		}
		if n := src.loads.Load(); n != loads {
			t.Errorf("%d fetches while it is pinned", n-loads)
		}
		must(t, b.client.Del(t.Context(), key).Err()) // which wins over everything
		eventually(t, "a hard purge", func() bool {
			a, err := r.Get(t.Context())
			return err == nil && a.Value == 2 && a.Status.Detail != DetailPinned
		})
		if n := b.client.HExists(t.Context(), key, "pinned_until").Val(); n {
			t.Error("the pin is still there")
		}
	})
}

func TestAPinEnds(t *testing.T) {
	b := anyStore(t)
	src, soft := newSource(), atomic.Int64{}
	s, r := counted(t, b.url, described(src), &soft)
	change(t, b, src, r, 1, 2)
	latest := func(name string, do func()) {
		restore(t, s, 1, time.Hour)
		eventually(t, "pinned", func() bool { return pinnedAt(r, t, 1) })
		do()
		eventually(t, name, func() bool { a := get(t, r); return a.Value == 2 && !a.Status.Stale })
		if b.client.HExists(t.Context(), key, "restore").Val() {
			t.Errorf("%s: the request is still there", name)
		}
	}
	latest("latest", func() { _, err := s.Unpin(t.Context(), "banners"); must(t, err) })
	latest("latest, through redis-cli", func() { must(t, b.client.HSet(t.Context(), key, "restore", "latest").Err()) })
	latest("by time", func() { restore(t, s, 1, 50*time.Millisecond) })
	if was, err := s.Unpin(t.Context(), "banners"); was || err != nil { // nothing happens
		t.Errorf("it was pinned: %t, %v", was, err)
	}
	if b.client.HGet(t.Context(), key, "fresh_until").Val() == "0" {
		t.Error("it is purged softly")
	}
	if n := soft.Load(); n > 0 {
		t.Errorf("%d ends of a pin are taken for soft purges", n)
	}
}

func TestAReplicaRestoresWhatAnOperatorAsksFor(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		_, s, r := changed(t, b)
		first := lease.VersionOf(body(1))
		ask := func(version string) { must(t, b.client.HSet(t.Context(), key, "restore", version).Err()) }
		gone := func() bool { return !b.client.HExists(t.Context(), key, "restore").Val() }
		ask(first)
		eventually(t, "the first version is served", func() bool { return pinnedAt(r, t, 1) && gone() })
		for _, wrong := range []string{"000000000000", "x\x00\xff", " ", first + " "} {
			ask(wrong)
			eventually(t, "what is not there is withdrawn", gone)
		}
		if !pinnedAt(r, t, 1) {
			t.Error("what is not there ended the pin")
		}
		// After a purge it is served again if that is asked for, and not otherwise.
		must(t, b.client.Del(t.Context(), key).Err())
		purged := lease.Restoration{Request: first, Version: first, ETag: ETag(body(1)), Body: body(1), Pin: time.Hour, Set: "x"}
		done, err := s.hash("banners").Restore(t.Context(), b.client, purged)
		if must(t, err); done.Outcome != lease.Lost {
			t.Errorf("a request that was purged: %s", done.Outcome)
		}
		eventually(t, "the present version is served", func() bool { a, err := r.Get(t.Context()); return err == nil && a.Value == 2 })
		must(t, b.client.Del(t.Context(), key).Err())
		ask(first)
		eventually(t, "the first version is served after a purge", func() bool { return pinnedAt(r, t, 1) && gone() })
		// What is kept of it is damaged.
		must(t, b.client.HSet(t.Context(), past, first+":body", "x").Err())
		ask(first)
		eventually(t, "what is damaged is withdrawn", gone)
	})
}

// TestAFetchDoesNotReplaceWhatIsRestoredMeanwhile has a document restored while one is fetched.
func TestAFetchDoesNotReplaceWhatIsRestoredMeanwhile(t *testing.T) {
	b := anyStore(t)
	src, s, r := changed(t, b)
	release := src.hold()
	src.version.Store(3)
	must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
	eventually(t, "it is being fetched", func() bool { return r.Snapshot().Fetching })
	restore(t, s, 1, time.Hour)
	release()
	eventually(t, "the first version is served", func() bool { return pinnedAt(r, t, 1) && !r.Snapshot().Fetching })
	if got := b.client.HGet(t.Context(), key, "body").Val(); got != string(body(1)) {
		t.Error(got)
	}
}

// TestLosingRedisLosesThePin has Redis come back empty: the pinned copy is offered only until
// another is fetched.
func TestLosingRedisLosesThePin(t *testing.T) {
	server := startRedis(t)
	_, s, r := changed(t, backend{server.URL(), server.Client()})
	restore(t, s, 1, time.Hour)
	restored := watch.Now()
	eventually(t, "pinned", func() bool { // and the change looked at: the copy is dropped otherwise
		return pinnedAt(r, t, 1) && r.watched.ReceivedSince(restored) && r.Snapshot().Coherent
	})
	server.Kill()
	eventually(t, "redis is away", func() bool { a := get(t, r); return a.Value == 1 && a.Status.Detail == DetailRedisAway })
	server.Restart()
	eventually(t, "the pin is lost", func() bool { a := get(t, r); return a.Value == 2 && a.Document.PinnedUntil.IsZero() })
}

// TestTheGuardComparesWithWhatWasRestored has a pin end: what it pinned is the copy that the next
// document is compared with.
func TestTheGuardComparesWithWhatWasRestored(t *testing.T) {
	server, src := startRedis(t), newSource()
	o := described(src)
	o.Guard = func(held, loaded *Document) *Objection {
		if bytes.Equal(held.Body, body(1)) && bytes.Equal(loaded.Body, body(2)) {
			return &Objection{Reason: "it is the second", Lasting: true}
		}
		return nil
	}
	s, r := replica(t, server.URL(), o)
	b := backend{client: server.Client()}
	change(t, b, src, r, 1, 2) // after a hard purge, there is nothing to compare with
	restore(t, s, 1, 50*time.Millisecond)
	eventually(t, "the next document is held back", func() bool {
		a := get(t, r)
		return a.Value == 1 && a.Status.Detail == DetailHeld && r.Snapshot().HeldBack != nil
	})
	must(t, b.client.HSet(t.Context(), key, "accept", 1).Err())
	eventually(t, "it is accepted", func() bool { return get(t, r).Value == 2 })
}

// TestAPinnedCopyHasItsStaleWindowsAfterThePin has a pin last longer than a copy is served that the
// CMS does not replace: nobody gets an error at its end, nor what the guard objects to.
func TestAPinnedCopyHasItsStaleWindowsAfterThePin(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *Store, backend){
		"by time": func(t *testing.T, _ *Store, b backend) {
			at := time.Now().Add(50 * time.Millisecond).UnixMilli()
			must(t, b.client.HSet(t.Context(), key, "pinned_until", at, "fresh_until", at).Err())
		},
		"latest": func(t *testing.T, s *Store, _ backend) {
			_, err := s.Unpin(t.Context(), "banners")
			must(t, err)
		},
	} {
		for reason, fails := range map[string]error{DetailIfError: errDown, DetailHeld: nil} {
			t.Run(name+", "+reason, func(t *testing.T) {
				b := anyStore(t)
				src := newSource()
				o := guarded(src, time.Hour)
				o.Describe = described(src).Describe
				s, r := replica(t, b.url, o)
				change(t, b, src, r, 2, 4)
				restore(t, s, 2, time.Hour)
				must(t, b.client.HSet(t.Context(), key, "fetched_at", time.Now().Add(-2*o.StaleIfError).UnixMilli()).Err())
				eventually(t, "pinned, and known to be old", func() bool {
					return pinnedAt(r, t, 2) && time.Since(get(t, r).Document.FetchedAt) > o.StaleIfError
				})
				src.version.Store(101)
				src.fail(fails)
				end(t, s, b)
				_, late := replica(t, b.url, o)
				for _, r := range []*Reader[int64]{r, late} {
					until(t, r, "it is stale", func(a Answer[int64]) bool {
						if a.Value != 2 {
							t.Fatalf("version %d is served", a.Value)
						}
						return a.Status.Stale && a.Status.Detail == reason
					})
				}
			})
		}
	}
}

// TestAPinThatOneHasEndedIsOver has Redis's clock be set back by ten minutes once a pin was ended, and
// the CMS fail until then.
func TestAPinThatOneHasEndedIsOver(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, s, r := changed(t, b)
		restore(t, s, 1, time.Hour)
		eventually(t, "pinned", func() bool { return pinnedAt(r, t, 1) })
		src.fail(errDown)
		_, err := s.Unpin(t.Context(), "banners")
		must(t, err)
		for _, field := range []string{"fetched_at", "changed_at", "pinned_until"} {
			if at, err := b.client.HGet(t.Context(), key, field).Int64(); err == nil {
				must(t, b.client.HSet(t.Context(), key, field, at+10*time.Minute.Milliseconds()).Err())
			}
		}
		src.fail(nil)
		until(t, r, "it is fetched again", func(a Answer[int64]) bool { return a.Value == 2 && !a.Status.Stale })
	})
}

// TestTheEndOfAPinMakesNothingNewer has a pin end that came back with an older snapshot: what Redis
// lost is newer than what was restored, however long that was pinned.
func TestTheEndOfAPinMakesNothingNewer(t *testing.T) {
	b := anyStore(t)
	src, s, r := changed(t, b)
	newer := *r.memory.Load()
	restore(t, s, 1, time.Hour)
	eventually(t, "pinned", func() bool { return pinnedAt(r, t, 1) })
	received(t, r)
	src.fail(errDown)
	pinned, err := r.look()
	must(t, err)
	newer.origin, newer.place, newer.mark, newer.fetchedAt = originLost, pinned.place, pinned.mark, pinned.fetchedAt+1
	ended := newer.fetchedAt + 1
	eventually(t, "the pin is over", func() bool { return time.Now().UnixMilli() > ended })
	r.memory.Store(&newer)
	must(t, b.client.HSet(t.Context(), key, "pinned_until", ended, "fresh_until", ended).Err())
	received(t, r)
	_, err = r.look()
	if must(t, err); r.memory.Load().origin != originLost || get(t, r).Value != 2 {
		t.Errorf("%+v is served", r.memory.Load())
	}
}

// TestAnOlderPinHoldsNobody has Redis restart from a snapshot with a pin, and the CMS fail: a newer
// copy stays, whether Redis had stored it or refused to, and also when that pin ends.
func TestAnOlderPinHoldsNobody(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"stored": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			b := backend{server.URL(), server.Client()}
			src, s, r := changed(t, b)
			restore(t, s, 1, time.Hour)
			eventually(t, "pinned", func() bool { return pinnedAt(r, t, 1) })
			must(t, b.client.Save(t.Context()).Err())
			src.version.Store(3)
			_, err := s.Unpin(t.Context(), "banners")
			must(t, err)
			until(t, r, "the third version", func(a Answer[int64]) bool { return a.Value == 3 && !a.Status.Stale })
			if refused {
				src.version.Store(4)
				refuseAfter(t, b.client, "fresh_until", 0)
				until(t, r, "the fourth version", func(a Answer[int64]) bool { return a.Value == 4 })
			}
			newest := src.version.Load()
			warmed := watch.Now()
			eventually(t, "all changes are looked at", func() bool {
				get(t, r)
				return r.watched.ReceivedSince(warmed) && r.Snapshot().Coherent
			})
			src.fail(errDown)
			server.Restart()
			stays := func() {
				t.Helper()
				for range 5 {
					_, err := r.look()
					must(t, err)
					if a := get(t, r); a.Value != newest {
						t.Fatalf("%+v is served", a)
					}
				}
			}
			eventually(t, "the snapshot is looked at", func() bool { return get(t, r).Value == newest && r.memory.Load().origin == originLost })
			stays()
			_, err = s.Unpin(t.Context(), "banners")
			must(t, err)
			received(t, r)
			stays()
		})
	}
}

// TestTheEndOfAPinIsNoDifference has a pin end in Redis before it does here, as clocks may.
func TestTheEndOfAPinIsNoDifference(t *testing.T) {
	b := anyStore(t)
	_, s, r := changed(t, b)
	until := restore(t, s, 1, 200*time.Millisecond)
	eventually(t, "pinned", func() bool { return pinnedAt(r, t, 1) })
	received(t, r)
	e, err := r.look()
	must(t, err)
	slow := *e
	slow.freshUntil += time.Minute
	r.memory.Store(&slow)
	eventually(t, "the pin is over", func() bool {
		s.watch.NoteRead(watch.Now())
		return time.Now().After(until.Add(time.Millisecond)) && r.watched.Trusts(&slow.mark, watch.Now())
	})
	if r.differs(&slow) {
		t.Error("it is taken for a difference")
	}
}

// TestAPinFromTheFutureIsNoDifference has Redis's clock be set back while a document is pinned.
func TestAPinFromTheFutureIsNoDifference(t *testing.T) {
	b := anyStore(t)
	_, s, r := changed(t, b)
	restore(t, s, 1, time.Hour)
	must(t, b.client.HSet(t.Context(), key, "fetched_at", time.Now().Add(time.Minute).UnixMilli()).Err())
	received(t, r)
	e, err := r.look()
	must(t, err)
	eventually(t, "memory is trusted", func() bool {
		s.watch.NoteRead(watch.Now())
		return r.watched.Trusts(&e.mark, watch.Now())
	})
	if r.differs(e) {
		t.Error("it is taken for a difference")
	}
}

// TestARequestThatFailsIsTriedAgain has Redis refuse the restore when it is asked for.
func TestARequestThatFailsIsTriedAgain(t *testing.T) {
	server := startRedis(t)
	b := backend{server.URL(), server.Client()}
	_, _, r := changed(t, b)
	must(t, b.client.Do(t.Context(), "acl", "setuser", "default", "-hget").Err())
	must(t, b.client.HSet(t.Context(), key, "restore", lease.VersionOf(body(1))).Err())
	eventually(t, "it fails", r.uncarried.Load)
	must(t, b.client.Do(t.Context(), "acl", "setuser", "default", "+hget").Err())
	eventually(t, "it is carried out", func() bool { return pinnedAt(r, t, 1) })
}

// TestARestoreDoesNotUndoAPurge purges while two replicas carry out what an operator has asked for:
// not yet, in the middle, or just done.
func TestARestoreDoesNotUndoAPurge(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, _, r := changed(t, b)
		replica(t, b.url, described(src))
		for i := range 30 {
			must(t, b.client.HSet(t.Context(), key, "restore", lease.VersionOf(body(1))).Err())
			watch.Sleep(t.Context(), time.Duration(i)*100*time.Microsecond)
			must(t, b.client.Del(t.Context(), key).Err())
			received(t, r)
			for range 5 {
				if a := get(t, r); a.Value != 2 {
					t.Fatalf("purged, and restored: %+v, %+v", a, a.Document)
				}
				if got := b.client.HGet(t.Context(), key, "body").Val(); got == string(body(1)) {
					t.Fatal("what was purged is in Redis")
				}
				watch.Sleep(t.Context(), time.Millisecond)
			}
		}
	})
}
