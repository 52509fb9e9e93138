package watch

import (
	"net"
	"testing"

	"vitrine/cmd/testkit"
)

// TestARetiredServerKeepsNoConnection has a call fail just after its server was given up for
// another: the pool that replaces its broken one is closed, too.
func TestARetiredServerKeepsNoConnection(t *testing.T) {
	one, _ := store(t)
	two, _ := store(t)
	y := newWay(t, one)
	w := open(t, y.Addr().String())
	k := w.Key("k", "p:lease:{p:k}", func(Event) {})
	testkit.Eventually(t, "changes are received", w.Listening)
	s := k.server.Load()
	w.redirect(func(string) string { return two.Addr() })
	testkit.Eventually(t, "nothing is connected to it", func() bool { return y.conns() == 0 })
	s.renew(s.pool.Load()) // as Do does after a failed call
	_ = s.pool.Load().Ping(t.Context()).Err()
	if n := y.conns(); n != 0 {
		t.Errorf("%d ends of connections to a server that nobody uses", n)
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
	s.heard.Store(&before)
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
	if len(*v) != 2 || (*v)[0].addr != net.JoinHostPort("10.0.0.1", "7000") || (*v)[1].addr != "10.0.0.2:7001" {
		t.Errorf("got %+v", *v)
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
