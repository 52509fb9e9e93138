package operator

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// maxConnections bounds the open connections.
	maxConnections = 256

	// Reads of all connections together are paced: after the first readBurst there are readRate a
	// second. A read counts once more for each readBytes that it brings.
	readRate  = 1000
	readBurst = 250
	readBytes = 64 << 10
)

// connections bounds what clients can hold and send, whether or not they are authorized. A new
// connection is always accepted: beyond the limit the connection that has waited longest for a
// whole request is closed, or the one whose request has taken longest. A health check, which is
// answered at once, therefore has its turn whatever else is open.
type connections struct {
	most int
	turn *semaphore.Weighted // 1: reads wait in a queue that closed connections leave
	pace *rate.Limiter

	mu     sync.Mutex   // guards the field below, and busy of each of them
	placed []*pacedConn // the one whose state is the oldest first
}

func newConnections() *connections {
	return &connections{most: maxConnections, turn: semaphore.NewWeighted(1), pace: rate.NewLimiter(readRate, readBurst)}
}

// changed is the ConnState of an http.Server.
func (cs *connections) changed(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*pacedConn)
	if !ok {
		return
	}
	if extra := cs.note(c, state); extra != nil {
		_ = extra.Close() // the server reports its end
	}
}

// note returns the connection that has to give way, or nil.
func (cs *connections) note(c *pacedConn, state http.ConnState) (extra *pacedConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.placed = slices.DeleteFunc(cs.placed, func(other *pacedConn) bool { return other == c })
	if state == http.StateClosed || state == http.StateHijacked || c.open.Err() != nil {
		return nil
	}
	c.busy = state == http.StateActive
	others := cs.placed
	cs.placed = append(cs.placed, c)
	if len(others) < cs.most {
		return nil
	}
	first := max(0, slices.IndexFunc(others, func(other *pacedConn) bool { return !other.busy })) // the first of all, if all are
	extra = others[first]
	cs.placed = slices.Delete(cs.placed, first, first+1)
	extra.end() // before its next request can begin
	return extra
}

// A pacedListener makes each connection of another listener a pacedConn.
type pacedListener struct {
	net.Listener
	connections *connections
}

// Accept implements [net.Listener].
func (l pacedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &pacedConn{Conn: nc, connections: l.connections}
	c.open, c.end = context.WithCancel(context.Background())
	return c, nil
}

// A pacedConn is a connection whose reads are paced.
type pacedConn struct {
	net.Conn
	*connections
	open context.Context // ends with Close
	end  context.CancelFunc
	busy bool // from the last byte of a request's header to the end of its answer
}

// Read implements [net.Conn].
func (c *pacedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.turn.Acquire(c.open, 1) == nil {
		defer c.turn.Release(1)
		_ = c.pace.WaitN(c.open, min(readBurst, 1+n/readBytes)) // fails only when the connection is closed
	}
	return n, err
}

// Close implements [net.Conn].
func (c *pacedConn) Close() error {
	c.end()
	return c.Conn.Close()
}
