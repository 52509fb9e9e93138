package operator

import (
	"container/list"
	"context"
	"net"
	"net/http"
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

	mu         sync.Mutex // guards the lists
	idle, busy list.List  // of *pacedConn, those that came first in front
}

func newConnections() *connections {
	return &connections{most: maxConnections, turn: semaphore.NewWeighted(1), pace: rate.NewLimiter(readRate, readBurst)}
}

// changed is the ConnState of an http.Server. A connection is active from the last byte of a
// request's header to the end of its answer.
func (cs *connections) changed(nc net.Conn, state http.ConnState) {
	if c, ok := nc.(*pacedConn); ok {
		if extra := cs.place(c, state); extra != nil {
			_ = extra.Close() // the server reports its end
		}
	}
}

// place moves a connection to the list of its state, and returns the one that has to give way to it.
func (cs *connections) place(c *pacedConn, state http.ConnState) (extra *pacedConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.gaveWay {
		return nil
	}
	if c.in != nil {
		c.in.Remove(c.element)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.in = &cs.idle
	case http.StateActive:
		c.in = &cs.busy
	case http.StateHijacked, http.StateClosed:
		c.in = nil
		return nil
	}
	c.element = c.in.PushBack(c)
	if cs.idle.Len()+cs.busy.Len() <= cs.most {
		return nil
	}
	oldest := cs.idle.Front()
	if oldest == c.element {
		oldest = cs.busy.Front()
	}
	extra, _ = oldest.Value.(*pacedConn)
	extra.in.Remove(extra.element)
	extra.gaveWay = true
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
	open    context.Context // ends with Close
	end     context.CancelFunc
	in      *list.List    // nil at first and at last; guarded by connections.mu, like the rest
	element *list.Element // in that list
	gaveWay bool
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
