package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection of a service. The service calls [conn.Idle] when it is between two
// requests, with nothing read of the next one, and [conn.Busy] when that has begun. Before the
// first request the connection knows by itself.
type conn struct {
	net.Conn
	listener *Listener
	state    atomic.Int32
	turns    atomic.Uint32 // how often it became idle
	closed   atomic.Bool

	// For the service's reads, which are one at a time.
	begun    bool      // a read was called
	deadline time.Time // the service's

	// For the listener's look, which is one at a time.
	seen  uint32 // turns at the last look
	looks int    // that found it idle since then

	mu sync.Mutex // held while look takes the connection from its service
}

// The states of a connection.
const (
	busy    = iota // in a request, or waiting for the first one
	idle           // between two requests
	leaving        // between two requests, and no more are read
)

// aPast is a deadline that ends a read at once.
var aPast = time.Unix(1, 0)

// Idle records that all requests so far are answered and nothing of another one was read.
func (c *conn) Idle() {
	c.turns.Add(1)
	c.state.Store(idle)
}

// Busy records that a request has begun.
func (c *conn) Busy() {
	if c.state.CompareAndSwap(idle, busy) || c.state.Load() == busy {
		return
	}
	// The request was faster than look, whose deadline must not come after the service's own.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Store(busy)
}

// look ends the wait for a next request if the connection was idle at that many looks before.
func (c *conn) look(enough int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turns := c.turns.Load(); turns != c.seen {
		c.seen, c.looks = turns, 0
	} else {
		c.looks++
	}
	if c.looks >= enough && c.state.CompareAndSwap(idle, leaving) {
		_ = c.Conn.SetReadDeadline(aPast) // a connection that is gone needs none
	}
}

// SetReadDeadline records the deadline, since look sets another one.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// Read reads, but returns io.EOF for a request after the connection was taken from its service,
// which then closes it silently.
func (c *conn) Read(p []byte) (int, error) {
	if !c.begun {
		c.begun = true
		c.Idle()
		n, err := c.read(p)
		if n > 0 {
			c.Busy()
			_ = c.Conn.SetReadDeadline(c.deadline) // look may have come after it
		}
		return n, err
	}
	return c.read(p)
}

func (c *conn) read(p []byte) (int, error) {
	if c.state.Load() == leaving {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.state.Load() == leaving {
		err = io.EOF
	}
	return n, err
}

// Close closes the connection, or hands it over: a service closes one when it cannot read.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.listener.forget(c)
	if c.state.Load() != leaving || !c.listener.handed.Load() {
		return c.Conn.Close()
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return c.Conn.Close()
	}
	c.listener.socket.pass(passed{Conn: c.Conn, begun: true})
	return nil
}

// A secureConn is a conn over TLS, which servers recognize by these methods.
type secureConn struct {
	*conn
	secure *tls.Conn
}

func (c *secureConn) Handshake() error                     { return c.secure.Handshake() }
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }
