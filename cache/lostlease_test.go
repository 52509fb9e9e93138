package cache

import (
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
)

// TestALeaseAfterALossIsNoPurge has another replica take the lease in the empty Redis after this one
// has looked at it. Once somebody deletes that lease, the document is purged.
func TestALeaseAfterALossIsNoPurge(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	_, r := replica(t, server.URL(), options(src))
	warm(t, r)
	server.Kill()
	eventually(t, "it is noticed", func() bool { return !r.watched.Up() || get(t, r).Status.Detail == DetailRedisAway })
	server.Restart()
	eventually(t, "it is back", func() bool { return r.watched.Up() && r.watched.Listening() })
	look := func() *entry[int64] {
		t.Helper()
		e, err := r.look()
		must(t, err)
		return e
	}
	if e := look(); e.doc == nil || !e.lost() {
		t.Fatalf("the empty Redis: %+v", e)
	}
	another := lease.New("vitrine:", "banners", "another", time.Hour)
	acquire := func(token string) {
		t.Helper()
		mark := r.watched.Mark()
		l, err := another.Acquire(t.Context(), server.Client(), lease.Request{Token: token, Length: time.Minute, TTL: time.Minute, Source: "test"})
		must(t, err)
		if l.Outcome != lease.Granted {
			t.Fatalf("acquire: %s", l.Outcome)
		}
		eventually(t, "it is announced", func() bool { return r.watched.Withdrawn(&mark) })
	}
	acquire("another:1")
	for range 2 {
		if e := look(); e.doc == nil || !e.lost() {
			t.Fatalf("another's lease: %+v", e)
		}
	}
	must(t, server.Client().Del(t.Context(), key).Err())
	acquire("another:2")
	if e := look(); e.doc != nil {
		t.Errorf("purged: %+v", e)
	}
}

// TestALeaseInAnEmptyRedisWithdrawsNothing has another replica take the lease in the empty Redis
// before this one can look at it. A purge that was received before the loss still counts.
func TestALeaseInAnEmptyRedisWithdrawsNothing(t *testing.T) {
	for name, purged := range map[string]bool{"not purged": false, "purged before": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			src := newSource()
			_, r := replica(t, server.URL(), options(src))
			warm(t, r)
			holdLooks(t, r)
			mark := r.watched.Mark()
			if purged {
				must(t, server.Client().Del(t.Context(), key).Err())
				eventually(t, "the purge is received", func() bool { return r.watched.Withdrawn(&mark) })
			}
			server.Kill()
			eventually(t, "it is noticed", func() bool { return !r.watched.Listening() })
			server.Restart()
			eventually(t, "it is back", r.watched.Listening)
			mark = r.watched.Mark()
			another := lease.New("vitrine:", "banners", "another", time.Hour)
			_, err := another.Acquire(t.Context(), server.Client(), lease.Request{Token: "another:1", Length: time.Minute, TTL: time.Minute, Source: "test"})
			must(t, err)
			eventually(t, "it is announced", func() bool { return r.watched.Withdrawn(&mark) })
			if e := r.uncoordinated(); (e == nil) != purged {
				t.Errorf("offered without a look: %+v", e)
			}
		})
	}
}

// TestAPurgeAfterALossCounts has an operator purge what an empty Redis has lost: with a flush, of
// which nothing but its announcement tells, and with a DEL of another replica's lease before this
// one has seen it.
func TestAPurgeAfterALossCounts(t *testing.T) {
	another := lease.New("vitrine:", "banners", "another", time.Hour)
	acquire := func(t *testing.T, s *redistest.Server, token string) lease.Lease {
		t.Helper()
		l, err := another.Acquire(t.Context(), s.Client(), lease.Request{Token: token, Length: time.Minute, TTL: time.Minute, Source: "test"})
		must(t, err)
		return l
	}
	for name, test := range map[string]struct {
		purged bool
		events func(*testing.T, *redistest.Server)
	}{
		"FLUSHALL":         {true, func(t *testing.T, s *redistest.Server) { must(t, s.Client().FlushAll(t.Context()).Err()) }},
		"nothing, a lease": {false, func(t *testing.T, s *redistest.Server) { acquire(t, s, "another:1") }},
		"nothing, a lease and a failure": {false, func(t *testing.T, s *redistest.Server) {
			_, _, err := another.Release(t.Context(), s.Client(), acquire(t, s, "another:1"), lease.Word{Failure: lease.Failure{Count: 1}, Pause: time.Millisecond})
			must(t, err)
		}},
		"FLUSHALL, and a lease": {true, func(t *testing.T, s *redistest.Server) {
			must(t, s.Client().FlushAll(t.Context()).Err())
			acquire(t, s, "another:1")
		}},
		"DEL of a lease": {true, func(t *testing.T, s *redistest.Server) {
			acquire(t, s, "another:1")
			must(t, s.Client().Del(t.Context(), key).Err())
		}},
		"DEL of a lease, and another lease": {true, func(t *testing.T, s *redistest.Server) {
			acquire(t, s, "another:1")
			must(t, s.Client().Del(t.Context(), key).Err())
			acquire(t, s, "another:2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			src := newSource()
			_, r := replica(t, server.URL(), options(src))
			warm(t, r)
			server.Kill()
			eventually(t, "it is noticed", func() bool { return get(t, r).Status.Detail == DetailRedisAway })
			server.Restart()
			eventually(t, "it is back", func() bool { return r.watched.Up() && r.watched.Listening() })
			holdLooks(t, r) // but for those here
			if e, err := r.look(); err != nil || !e.lostOnly() {
				t.Fatalf("the empty Redis: %+v, %v", e, err)
			}
			mark := r.watched.Mark()
			test.events(t, server)
			since := watch.Now()
			eventually(t, "it is announced", func() bool { return r.watched.Changed(&mark) && r.watched.HeardSince(since) })
			for range 2 {
				if e, err := r.look(); err != nil || e.lostOnly() == test.purged {
					t.Errorf("still offered: %t, %v", e.lostOnly(), err)
				}
			}
		})
	}
}
