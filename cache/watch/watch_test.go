package watch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cmd/testkit"
)

// TestAKeyIsListenedToWhereverItGoes has a key come to a server that is listened to for another one:
// when it is new, and when it has been elsewhere.
func TestAKeyIsListenedToWhereverItGoes(t *testing.T) {
	var addrs []string
	clients := map[string]*redis.Client{}
	for range 2 {
		s, err := embedded.Start("127.0.0.1:0", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		addrs = append(addrs, s.Addr())
		clients[s.Addr()] = redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = clients[s.Addr()].Close() })
	}
	w, err := Open(t.Context(), Options{
		URL: "redis://" + addrs[0], Prefix: "p:", Bound: 50 * time.Millisecond, Patience: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.Key("stays", func(bool) {})
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
		w.Key(name, func(changed bool) {
			if changed {
				Signal(c)
			}
		})
	}
	received := func(name, addr string) {
		testkit.Eventually(t, "a change of "+name+" is received", func() bool {
			if err := clients[addr].HSet(t.Context(), "p:"+name, "a", 1).Err(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed[name]:
				return true
			case <-time.After(10 * time.Millisecond):
				return false
			}
		})
	}
	received("new", addrs[0])
	received("goes", addrs[1])
	select {
	case <-changed["goes"]: // more than one may have come
	default:
	}
	at = 0
	w.redirect(route)
	received("goes", addrs[0])
}
