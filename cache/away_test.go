package cache

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cache/watch"
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
			src, r := serving(t, server.URL())
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
			eventually(t, "it is back", func() bool { return r.store.Up() && r.store.Listening() })
			eventually(t, "coherent again", func() bool { return get(t, r).Status.Detail == DetailMemory })
		})
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
	stored := watch.Now()
	eventually(t, "the own writes are announced", func() bool { return r.watched.ReceivedSince(stored) })
	release := src.hold()
	defer release()
	eventually(t, "stale", func() bool { return get(t, r).Status.Detail == DetailSlow })
}

func TestDeadHolderIsReplacedWhenItsLeaseRunsOut(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		// Another process took the lease, and died.
		length := 300 * time.Millisecond
		until, elapsed := time.Now().Add(length), testkit.Stopwatch(t)
		acquire(t, b.client, length)
		a := get(t, r)
		if late := time.Since(until); late < -5*time.Millisecond || elapsed() > length+200*time.Millisecond {
			t.Errorf("answered %v after the lease ran out", late)
		}
		if a.Value != 1 || src.loads.Load() != 1 {
			t.Errorf("got %+v after %d loads", a, src.loads.Load())
		}
	})
}

func TestSlowHolderDoesNotOverwriteItsSuccessor(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		got, release := loading(t, src, r)
		// Its lease ran out, and a successor has filled with version 7.
		src.version.Store(7)
		must(t, b.client.HSet(t.Context(), books, "lease_until", 1).Err())
		fill(t, b.client, acquire(t, b.client, time.Minute), 7)
		release()
		if a := testkit.Receive(t, got); a.Value != 7 {
			t.Errorf("got version %d, want the successor's 7", a.Value)
		}
		if h := b.client.HGet(t.Context(), key, "body").Val(); h != string(body(7)) {
			t.Errorf("redis holds %s, overwritten by the slow holder", h)
		}
	})
}

// TestAServerThatAnswersByteByByteIsAway has an announced document come a byte every ten
// milliseconds, without end.
func TestAServerThatAnswersByteByByteIsAway(t *testing.T) {
	t.Parallel()
	r := alone(t, "redis://"+liar(t, []byte("*16\r\n$1000000\r\n"), 10*time.Millisecond), options(newSource()))
	for range 3 {
		elapsed := testkit.Stopwatch(t)
		a := get(t, r)
		if took := elapsed(); a.Value != 1 || took > 5*time.Second {
			t.Fatalf("%+v after %v", a, took)
		}
	}
}

// liar answers with lie, but to what a connection begins with, and then with a byte in every pause,
// unless that is 0. It returns its address.
func liar(t *testing.T, lie []byte, pause time.Duration) string {
	return testkit.Accept(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		for read := make([]byte, 4<<10); ; {
			n, err := c.Read(read)
			if err != nil {
				return
			}
			answer := lie
			for cmd, truth := range map[string]string{"info": "$2\r\n\r\n\r\n", "hello": "%1\r\n+server\r\n+redis\r\n", "client": "+OK\r\n"} {
				if strings.Contains(strings.ToLower(string(read[:n])), "\r\n"+cmd+"\r\n") {
					answer = []byte(truth)
				}
			}
			_, err = c.Write(answer)
			for pause > 0 && err == nil && len(answer) == len(lie) {
				<-time.After(pause)
				_, err = c.Write([]byte("x"))
			}
			if err != nil {
				return
			}
		}
	})
}
