package cache

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay is a way to a server that can be cut, and that can lead to another server.
type relay struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string // "" while it is cut
	last   string
	conns  map[net.Conn]bool
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{listener: l, target: target, conns: map[net.Conn]bool{}}
	r.tasks.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.tasks.Wait()
	})
	return r
}

func (r *relay) url() string { return "redis://" + r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		target := r.target
		r.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if target == "" || err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = true, true
		r.mu.Unlock()
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_, _ = to.Close(), from.Close()
		}
		r.tasks.Go(func() { pass(server, client) })
		r.tasks.Go(func() { pass(client, server) })
	}
}

// cut closes all connections, and lets nobody connect.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.target != "" {
		r.target, r.last = "", r.target
	}
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) heal() { r.lead(r.last) }

// lead takes new connections elsewhere. Those that there are stay.
func (r *relay) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}
