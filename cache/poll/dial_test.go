package poll_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/dns/dnsmessage"

	"vitrine/cache/embedded"
	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// resolve has all names be those of this machine, by a DNS server: delay is what it waits before it
// answers the n-th query, from 0; a negative one loses it.
func resolve(t *testing.T, delay func(n int) time.Duration) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	var ended sync.WaitGroup
	t.Cleanup(func() { testkit.Check(t, server.Close()); ended.Wait() })
	ended.Go(func() {
		buffer := make([]byte, 512)
		for n := 0; ; n++ {
			length, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			testkit.Check(t, m.Unpack(buffer[:length]))
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			packed, err := m.Pack()
			testkit.Check(t, err)
			if d := delay(n); d >= 0 {
				poll.Sleep(t.Context(), d)
				_, _ = server.WriteTo(packed, from) // who asked may have gone
			}
		}
	})
	preferred, dialled := net.DefaultResolver.PreferGo, net.DefaultResolver.Dial
	t.Cleanup(func() { net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = preferred, dialled })
	net.DefaultResolver.PreferGo = true
	net.DefaultResolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.LocalAddr().String())
	}
}

// follow polls a store by a name, with the time that Redis may be silent, and returns the results and
// what is logged.
func follow(t *testing.T, silent time.Duration) (<-chan *poll.Result, *testkit.Buffer) {
	t.Helper()
	store, err := embedded.Start("127.0.0.1:0", slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	_, port, _ := strings.Cut(store.Addr(), ":")
	log := new(testkit.Buffer)
	r, err := poll.Open(t.Context(), poll.Options{URL: "redis://redis.test:" + port, Bound: 50 * time.Millisecond, Patience: silent, MostBody: 1 << 20, Log: slog.New(slog.NewTextHandler(log, nil))})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	return r.Follow(lease.New("vitrine:", "banners")).Results, log
}

// TestALostDNSQueryCostsOneAttempt: a resolver shares the queries of one name, and waits for 5 seconds.
// Docker's answers none for a container that is down.
func TestALostDNSQueryCostsOneAttempt(t *testing.T) {
	began, answers := time.Now(), time.Second
	resolve(t, func(int) time.Duration {
		if time.Since(began) < answers {
			return -1
		}
		return 0
	})
	results, _ := follow(t, 200*time.Millisecond)
	for r := testkit.Receive(t, results); r.Unreachable; {
		r = testkit.Receive(t, results)
	}
	if took := time.Since(began) - answers; took > 2*time.Second {
		t.Errorf("redis was reached %v after its name was known", took)
	}
}

// TestConnectingIsNoDistance: the name takes longer than a purge bound.
func TestConnectingIsNoDistance(t *testing.T) {
	resolve(t, func(int) time.Duration { return 100 * time.Millisecond })
	results, log := follow(t, time.Second)
	for n := 0; n < 3; {
		if !testkit.Receive(t, results).Unreachable {
			n++
		}
	}
	if strings.Contains(log.String(), "too far away") {
		t.Error(log)
	}
}

// TestWithoutAnAnswerNoProcessIsTakenForAnother: of a data set that is another one, INFO tells whether it
// was flushed or lost, and its reply may not come.
func TestWithoutAnAnswerNoProcessIsTakenForAnother(t *testing.T) {
	store, err := embedded.Start("127.0.0.1:0", slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	way := redistest.NewRelay(t, store.Addr())
	client := redis.NewClient(&redis.Options{Addr: store.Addr()})
	t.Cleanup(func() { testkit.Check(t, client.Close()) })
	r, err := poll.Open(t.Context(), poll.Options{URL: way.URL(), Bound: 50 * time.Millisecond, Patience: 300 * time.Millisecond, MostBody: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	results := r.Follow(lease.New("vitrine:", "banners")).Results
	for _, set := range []string{"one", "another"} {
		testkit.Must(t, client.HSet(t.Context(), "vitrine:banners", "set", set, "seq", 1, "etag", "x", "body", "[]").Err())
		for at := ""; at != set; {
			if p := testkit.Receive(t, results); !p.Unreachable && p.Run == "" {
				t.Fatalf("no process, of set %q", p.Set)
			} else if !p.Unreachable {
				at = p.Set
			}
		}
		way.Lose("info", 1)
	}
}
