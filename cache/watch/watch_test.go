package watch

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestAKeyIsListenedToWhereverItGoes has a key come to a server that is listened to for another
// one: when it is new, and when it has been elsewhere.
func TestAKeyIsListenedToWhereverItGoes(t *testing.T) {
	one, oneClient := store(t)
	two, twoClient := store(t)
	left := redistest.NewRelay(t, two.Addr())
	addrs, clients := []string{one.Addr(), left.Addr()}, []*redis.Client{oneClient, twoClient}
	w := open(t, addrs[0])
	w.Key("stays", "p:lease:{p:stays}", func(Event) {})
	testkit.Eventually(t, "changes are received", w.Listening)
	at := 1
	route := func(key string) string {
		if key == "p:goes" {
			return addrs[at]
		}
		return addrs[0]
	}
	w.redirect(route)
	changed := map[string]chan struct{}{"new": make(chan struct{}, 1), "goes": make(chan struct{}, 1)}
	for name, c := range changed {
		w.Key(name, "p:lease:{p:"+name+"}", func(e Event) {
			if e == Changed {
				Signal(c)
			}
		})
	}
	received := func(name string, at int) {
		t.Helper()
		testkit.Eventually(t, "a change of "+name+" is received", func() bool {
			testkit.Must(t, clients[at].HSet(t.Context(), "p:"+name, "a", 1).Err())
			select {
			case <-changed[name]:
				return true
			case <-time.After(10 * time.Millisecond):
				return false
			}
		})
	}
	received("new", 0)
	received("goes", 1)
	for len(changed["goes"]) > 0 { // more than one may have come
		<-changed["goes"]
	}
	at = 0
	w.redirect(route)
	received("goes", 0)
	testkit.Eventually(t, "nothing is connected to a server without keys", func() bool { return left.Conns() == 0 })
}

// TestAServerWithoutWatchedKeysIsKept, such as that of the replicas' reports in a Cluster, although
// the masters are asked for all the time.
func TestAServerWithoutWatchedKeysIsKept(t *testing.T) {
	one, _ := store(t)
	two, _ := store(t)
	w := open(t, one.Addr())
	route := func(key string) string {
		if key == "p:replicas" {
			return two.Addr()
		}
		return one.Addr()
	}
	w.redirect(route)
	s, err := w.Server(t.Context(), "replicas")
	testkit.Must(t, err)
	w.redirect(route)
	if again, err := w.Server(t.Context(), "replicas"); err != nil || again != s || s.ctx.Err() != nil {
		t.Errorf("another server: %t, %v, %v", again != s, err, s.ctx.Err())
	}
}

// TestAKeyWithoutAMasterHasNoServer, as in a Cluster that has lost a slot.
func TestAKeyWithoutAMasterHasNoServer(t *testing.T) {
	one, _ := store(t)
	w := open(t, one.Addr())
	for range 2 {
		w.redirect(func(key string) string {
			if key == "p:replicas" {
				return ""
			}
			return one.Addr()
		})
		if s, err := w.Server(t.Context(), "replicas"); !errors.Is(err, ErrNoServer) {
			t.Errorf("got %v, %v", s, err)
		}
		if k := w.Key("replicas", "p:lease:{p:replicas}", func(Event) {}); k.server.Load() != nil {
			t.Errorf("a key of a slot that nobody serves is asked for at %q", k.server.Load().addr)
		}
	}
}

// TestAClusterAtNewAddressesIsFoundByItsURL, after all its nodes were down and have others now, as
// in Kubernetes, and is found again where the URL's node was removed; another that it names hangs.
func TestAClusterAtNewAddressesIsFoundByItsURL(t *testing.T) {
	start := func() *redistest.Server {
		s := redistest.Start(t, "--cluster-enabled", "yes", "--save", "1 1")
		testkit.Must(t, s.Client().ClusterAddSlotsRange(t.Context(), 0, slotCount-1).Err())
		return s
	}
	first, second := start(), start()
	named, hung := redistest.NewRelay(t, first.Addr), redistest.NewRelay(t, first.Addr)
	hung.Hang()
	w := open(t, named.Addr()+"?addr="+named.Addr()+"&addr="+hung.Addr())
	k := w.Key("k", "p:lease:{p:k}", func(Event) {})
	at := func(s *redistest.Server) {
		t.Helper()
		testkit.Eventually(t, "changes are received", func() bool {
			w.NoteRead(Now()) // the masters are asked for more often
			return w.Listening() && k.server.Load().addr == s.Addr
		})
	}
	at(first)
	named.Lead(second.Addr)
	first.Kill()
	at(second)
	named.Cut()
	second.Kill()
	testkit.Eventually(t, "it is noticed", func() bool { return !w.Listening() })
	Sleep(t.Context(), 2*topologyPause)
	second.Restart()
	at(second)
}

// TestARetiredServerKeepsNoConnection has a call fail just after its server was given up for
// another: the pool that replaces its broken one is closed, too.
func TestARetiredServerKeepsNoConnection(t *testing.T) {
	one, _ := store(t)
	two, _ := store(t)
	y := redistest.NewRelay(t, one.Addr())
	w := open(t, y.Addr())
	k := w.Key("k", "p:lease:{p:k}", func(Event) {})
	testkit.Eventually(t, "changes are received", w.Listening)
	s := k.server.Load()
	w.redirect(func(string) string { return two.Addr() })
	testkit.Eventually(t, "nothing is connected to it", func() bool { return y.Conns() == 0 })
	s.renew(s.pool.Load()) // as Do does after a failed call
	_ = s.pool.Load().Ping(t.Context()).Err()
	if n := y.Conns(); n != 0 {
		t.Errorf("%d ends of connections to a server that nobody uses", n)
	}
}

// TestAServerIsReachedOnOneConnection, whatever the URL has a pool begin with.
func TestAServerIsReachedOnOneConnection(t *testing.T) {
	one, _ := store(t)
	y := redistest.NewRelay(t, one.Addr())
	dial, err := parseURL(y.URL()+"?min_idle_conns=5", 200*time.Millisecond)
	testkit.Must(t, err)
	s := &Server{w: &Watch{dial: dial}, addr: y.Addr(), ctx: t.Context()}
	y.Hang()
	reached := make(chan error)
	go func() { reached <- s.reach() }()
	testkit.Eventually(t, "it is connected to", func() bool { return y.Conns() > 0 })
	if err, n := <-reached, y.Conns(); err == nil || n > 2 {
		t.Errorf("%v, with %d ends of connections", err, n)
	}
}

// TestAVoterThatIsNoneAnyMoreKeepsNoConnection, as a master of a Cluster that was demoted.
func TestAVoterThatIsNoneAnyMoreKeepsNoConnection(t *testing.T) {
	one, _ := store(t)
	y := redistest.NewRelay(t, one.Addr())
	v := &voters{w: &Watch{dial: &connector{voter: &redis.Options{}, patience: time.Second}}, clients: map[string]*redis.Client{}}
	for _, addrs := range [][]string{{one.Addr()}, nil} {
		v.know([]string{y.Addr(), one.Addr()})
		testkit.Must(t, v.clients[y.Addr()].Ping(t.Context()).Err())
		v.know(addrs)
		testkit.Eventually(t, "nothing is connected to it", func() bool { return y.Conns() == 0 })
	}
}

// TestASessionWithTheNewServerGoesOn has the exchange of a server be noticed on another connection
// after the listening one has been made to the new one: ended again, it would take with it what was
// received and not looked at.
func TestASessionWithTheNewServerGoesOn(t *testing.T) {
	one, _ := store(t)
	w := open(t, one.Addr())
	lost := make(chan struct{}, 10)
	k := w.Key("k", "p:lease:{p:k}", func(e Event) {
		if e == Lost {
			lost <- struct{}{}
		}
	})
	testkit.Eventually(t, "changes are received", w.Listening)
	for len(lost) > 0 {
		<-lost
	}
	s, before := k.server.Load(), "before"
	s.run.Store(&before)
	testkit.Must(t, s.reach())
	for range 3 { // pings
		since := Now()
		testkit.Eventually(t, "a ping is answered", func() bool { return k.ReceivedSince(since) })
	}
	if len(lost) > 0 {
		t.Error("the session with the new server has ended")
	}
	s.run.Store(&before)
	Signal(s.poked)
	testkit.Receive(t, lost)
}

// TestAMasterWithoutANameIsTheOneThatWasAsked, as in a Cluster whose preferred endpoint type is
// unknown-endpoint.
func TestAMasterWithoutANameIsTheOneThatWasAsked(t *testing.T) {
	v := parseSlots([]any{
		[]any{int64(0), int64(8191), []any{nil, int64(7000), "id"}},
		[]any{int64(8192), int64(16382), []any{"10.0.0.2", int64(7001), "id"}, []any{"10.0.0.3", int64(7002), "id"}},
		[]any{int64(16383), int64(16383)},
	}, "10.0.0.1")
	if len(v) != 2 || v[0].addr != net.JoinHostPort("10.0.0.1", "7000") || v[1].addr != "10.0.0.2:7001" {
		t.Errorf("got %+v", v)
	}
}

func TestAClusterHasNoDatabases(t *testing.T) {
	for url, ok := range map[string]bool{
		"redis://a:1/3?addr=b:1": false, "redis://a:1/0?addr=b:1": true, "redis://a:1?addr=b:1": true, "redis://a:1/?addr=b:1": true, "redis://a:1/3": true,
	} {
		if _, err := parseURL(url, 0); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// store starts an embedded store, and a client of it.
func store(t *testing.T) (*embedded.Store, *redis.Client) {
	t.Helper()
	s, err := embedded.Start("127.0.0.1:0", nil)
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

func open(t *testing.T, addr string) *Watch {
	t.Helper()
	w, err := Open(t.Context(), Options{URL: "redis://" + addr, Prefix: "p:", Bound: 50 * time.Millisecond, Patience: time.Second, Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	t.Cleanup(w.Close)
	return w
}

// TestAServerThatHangsHoldsUpNoMove has a key move from a server that hangs in the midst of
// connecting.
func TestAServerThatHangsHoldsUpNoMove(t *testing.T) {
	one, _ := store(t)
	two, _ := store(t)
	y := redistest.NewRelay(t, one.Addr())
	y.Lose("info", 1000)
	w := open(t, y.Addr())
	k := w.Key("k", "p:lease:{p:k}", func(Event) {})
	testkit.Eventually(t, "it is being connected to", func() bool { return y.Conns() > 0 && k.server.Load() != nil })
	elapsed := testkit.Stopwatch(t)
	w.redirect(func(string) string { return two.Addr() })
	if took := elapsed(); took > watchdog/4 {
		t.Errorf("it took %v", took)
	}
	testkit.Eventually(t, "changes are received from the other", w.Listening)
}
