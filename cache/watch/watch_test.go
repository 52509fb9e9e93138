package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cmd/testkit"
)

// TestAKeyIsListenedToWhereverItGoes has a key come to a server that is listened to for another
// one: when it is new, and when it has been elsewhere.
func TestAKeyIsListenedToWhereverItGoes(t *testing.T) {
	one, oneClient := store(t)
	two, twoClient := store(t)
	left := newWay(t, two)
	addrs := []string{one.Addr(), left.Addr().String()}
	clients := []*redis.Client{oneClient, twoClient}
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
	select {
	case <-changed["goes"]: // more than one may have come
	default:
	}
	at = 0
	w.redirect(route)
	received("goes", 0)
	testkit.Eventually(t, "nothing is connected to a server without keys", func() bool { return left.conns() == 0 })
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
	}
}
