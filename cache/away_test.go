package cache

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

func TestRedisAwayIsSlowerNeverAnError(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*redistest.Server) (end func()){
		"killed": func(s *redistest.Server) func() { s.Kill(); return s.Restart },
		"hung":   func(s *redistest.Server) func() { s.Pause(); return s.Resume },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src := newSource()
			_, r := replicaWith(t, prompt(server.URL()), options(src))
			warm(t, r)
			end := fault(server)
			eventually(t, "it is noticed", func() bool { return get(t, r).Status.Detail == DetailRedisAway })
			if a := get(t, r); a.Value != 1 || a.Status.Fwd != "" {
				t.Errorf("from memory: %+v", a)
			}
			src.fail(errDown) // the CMS too
			for range 10 {
				get(t, r)
			}
			src.fail(nil)
			end()
			eventually(t, "it is back", func() bool { return r.store.Up() && r.store.Answering() })
			eventually(t, "coherent again", func() bool { return get(t, r).Status.Detail == DetailMemory })
		})
	}
}

// TestABodyIsReadWhenRedisIsBack has Redis go away while a replica without a copy reads the body, for
// longer than it tries: the document is as good as before.
func TestABodyIsReadWhenRedisIsBack(t *testing.T) {
	server := startRedis(t)
	_, first := replica(t, server.URL(), options(newSource()))
	warm(t, first)
	relay := redistest.NewRelay(t, server.Addr)
	left := relay.Lose("upstream_last_modified", 1) // of the body's fields alone
	src := newSource(2)
	src.fail(errDown)
	_, r := readerWith(t, prompt(relay.URL()), options(src))
	eventually(t, "its body is read", func() bool { return left() == 0 })
	relay.Cut()
	eventually(t, "redis is unreachable", func() bool { return r.view.Load().unreachable })
	<-time.After((rereads + 1) * rereadPause)
	relay.Heal()
	eventually(t, "redis is back", func() bool { return !r.view.Load().unreachable })
	if a := get(t, r); a.Value != 1 || src.loads.Load() != 0 {
		t.Errorf("after %d loads: %+v", src.loads.Load(), a)
	}
}

func TestWithoutRedisFromTheStartTheSourceIsAsked(t *testing.T) {
	src := newSource()
	r := alone(t, "redis://127.0.0.1:1", options(src))
	a := get(t, r)
	if a.Value != 1 || a.Status.Fwd != FwdMiss || a.Status.Stored || a.Status.Detail != DetailRedisAway {
		t.Errorf("first answer: %+v", a)
	}
	for range 100 {
		if a := get(t, r); a.Status.Fwd != "" || a.Status.Detail != DetailRedisAway {
			t.Fatalf("second answer: %+v", a)
		}
	}
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
}

// TestWhatWasLoadedAloneGivesWayToALaterDocument of another replica, whose body is read first.
func TestWhatWasLoadedAloneGivesWayToALaterDocument(t *testing.T) {
	server := startRedis(t)
	src, way := newSource(), redistest.NewRelay(t, server.Addr)
	_, apart := replicaWith(t, prompt(way.URL()), options(src))
	warm(t, apart)
	_, other := replicaWith(t, prompt(server.URL()), options(src))
	warm(t, other)
	src.fail(errDown)
	must(t, server.Client().HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	until(t, apart, "it is stale", func(a Answer[int64]) bool { return a.Status.Stale })
	way.Cut()
	until(t, apart, "redis is unreachable", func(a Answer[int64]) bool { return a.Status.Detail == DetailRedisAway })
	src.version.Store(2)
	src.fail(nil)
	until(t, apart, "it loads alone", func(a Answer[int64]) bool { return a.Value == 2 })
	src.version.Store(3)
	until(t, other, "the other one stores a later version", func(a Answer[int64]) bool { return a.Value == 3 })
	way.Heal()
	until(t, apart, "that is served by both", func(a Answer[int64]) bool { return a.Value == 3 && a.Status.Detail == DetailMemory })
}

func TestNothingHeldAndSourceDownIsTheSourcesError(t *testing.T) {
	src := newSource()
	src.fail(errDown)
	r := alone(t, "redis://127.0.0.1:1", options(src))
	for range 20 {
		_, err := r.Get(t.Context())
		var retry *RetryError
		if !errors.Is(err, errDown) || !errors.As(err, &retry) || retry.After <= 0 {
			t.Fatalf("got %v, want the source's error and when it is tried again", err)
		}
	}
}

func TestSlowSourceDoesNotKeepAVisitorWhoCouldHaveTheStaleCopy(t *testing.T) {
	src := newSource()
	o := options(src)
	o.TTL, o.StaleWhileRevalidate, o.StaleWait = time.Millisecond, 0, 20*time.Millisecond
	_, r := replica(t, embeddedURL(t), o)
	get(t, r)
	release := src.hold()
	defer release()
	eventually(t, "stale", func() bool { return get(t, r).Status.Detail == DetailSlow })
}

// TestVisitorsWaitOnceForARedisThatGoesOn has Redis answer by a steady stream of bytes, each of which is
// in time; or by none. The copy is fresh.
func TestVisitorsWaitOnceForARedisThatGoesOn(t *testing.T) {
	t.Parallel()
	for name, lie := range redistest.Lies {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			way := redistest.NewRelay(t, server.Addr)
			_, r := replicaWith(t, prompt(way.URL()), options(newSource()))
			warm(t, r)
			way.Lie(lie)
			elapsed, waited := testkit.Stopwatch(t), time.Duration(0)
			for began := elapsed(); elapsed()-began < 2*time.Second; poll.Sleep(t.Context(), 20*time.Millisecond) {
				asked := elapsed()
				if a := get(t, r); a.Value != 1 {
					t.Fatalf("%+v", a)
				}
				took := elapsed() - asked
				if took > 50*time.Millisecond { // less is a busy machine's, in each of a hundred requests
					waited += took
				}
				if took > 600*time.Millisecond || waited > 900*time.Millisecond {
					t.Fatalf("waited for %v, %v in all", took, waited)
				}
			}
			way.Heal()
			way.Drop()
			eventually(t, "coherent again", func() bool { return get(t, r).Status.Detail == DetailMemory })
		})
	}
}

// TestACallEndsWithItsContext, although no reply comes, and another waits for longer.
func TestACallEndsWithItsContext(t *testing.T) {
	server := startRedis(t)
	way := redistest.NewRelay(t, server.Addr)
	store := openStore(t, way.URL())
	ask := func(limit time.Duration) (took time.Duration, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		elapsed := testkit.Stopwatch(t)
		_, err = store.History(ctx, "banners")
		return elapsed(), err
	}
	if _, err := ask(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	way.Lose("hkeys", 2) // polls go on: one that fails would end the calls
	others := make(chan time.Duration, 1)
	go func() { // a stopwatch stops while the machine does other work
		began := time.Now()
		_, _ = ask(2 * time.Second)
		others <- time.Since(began)
	}()
	if took, err := ask(200 * time.Millisecond); err == nil || took > 1500*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	if took := testkit.Receive(t, others); took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("another call ended after %v", took)
	}
}

// liar answers with lie whatever follows a greeting. It returns its address.
func liar(t *testing.T, lie []byte) string {
	return testkit.Accept(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		answer := []byte("%1\r\n+server\r\n+redis\r\n")
		for read := make([]byte, 4<<10); ; answer = lie {
			if _, err := c.Read(read); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
}

// TestNoReplyOfRedisEndsTheProcess has forms that go-redis reads past their end, or allocates for,
// come on every connection: as the answers to pings, scripts and reads.
func TestNoReplyOfRedisEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, lie := range []string{
		"*0\r\n", ">0\r\n", ">1\r\n:1\r\n", "%0\r\n", "*-1\r\n", "$-1\r\n", "_\r\n",
		"$9223372036854775807\r\n", "*68719476736\r\n", ":68719476736\r\n", "+68719476736\r\n", "$536870912\r\n", strings.Repeat("*1\r\n", 100_000), strings.Repeat("|1\r\n", 100_000),
	} {
		t.Run(lie[:min(len(lie), 24)], func(t *testing.T) {
			t.Parallel()
			_, r := readerWith(t, prompt("redis://"+liar(t, []byte(lie))), options(newSource()))
			for range 3 {
				elapsed := testkit.Stopwatch(t)
				if a := get(t, r); a.Value != 1 || elapsed() > 5*time.Second {
					t.Fatalf("%+v after %v", a, elapsed())
				}
			}
		})
	}
}
