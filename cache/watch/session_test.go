package watch

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cmd/testkit"
)

// A way leads to an embedded store, and to another once it is cut.
type way struct {
	net.Listener
	tasks sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	to    *embedded.Store
	stall string // what comes after this word from a client goes nowhere; "" for none
	open  map[net.Conn]bool
}

func newWay(t *testing.T, to *embedded.Store) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	y := &way{Listener: l, to: to, open: map[net.Conn]bool{}}
	y.tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			y.lead(client)
		}
	})
	t.Cleanup(func() { _ = l.Close(); y.cut(nil, ""); y.tasks.Wait() })
	return y
}

func (y *way) lead(client net.Conn) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.to == nil {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", y.to.Addr())
	if err != nil {
		_ = client.Close()
		return
	}
	y.open[client], y.open[server] = true, true
	y.tasks.Go(func() { y.pass(client, server, "") })
	y.tasks.Go(func() { y.pass(server, client, y.stall) })
}

func (y *way) pass(to, from net.Conn, stall string) {
	defer func() {
		_, _ = to.Close(), from.Close()
		y.mu.Lock()
		delete(y.open, from)
		y.mu.Unlock()
	}()
	stalled := false
	for b := make([]byte, 16<<10); ; {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if !stalled {
			_, _ = to.Write(b[:n])
		}
		stalled = stalled || stall != "" && bytes.Contains(b[:n], []byte(stall))
	}
}

// cut ends all connections, and leads new ones there.
func (y *way) cut(to *embedded.Store, stall string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.to, y.stall = to, stall
	for c := range y.open {
		_ = c.Close()
	}
}

func (y *way) conns() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.open)
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
	y := newWay(t, nil)
	y.cut(one, "info")
	w := open(t, y.Addr().String())
	k := w.Key("k", "p:lease:{p:k}", func(Event) {})
	testkit.Eventually(t, "it is being connected to", func() bool { return y.conns() > 0 && k.server.Load() != nil })
	elapsed := testkit.Stopwatch(t)
	w.redirect(func(string) string { return two.Addr() })
	if took := elapsed(); took > watchdog/4 {
		t.Errorf("it took %v", took)
	}
	testkit.Eventually(t, "changes are received from the other", w.Listening)
}
