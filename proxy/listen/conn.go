package listen

import (
	"context"
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
	end    func(*conn) error // closes it, or hands it over
	state  atomic.Int32
	turns  atomic.Uint32 // how often it became idle
	closed atomic.Bool

	// For the service's reads and writes, which are one at a time.
	begun    bool         // a read was called
	deadline atomic.Int64 // of the service for reads, in Unix nanoseconds; 0 for none
	reads    alarm
	writes   alarm

	// For the listener's look, which is one at a time.
	seen  uint32 // turns at the last look
	looks int32  // that found it idle since then

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
func (c *conn) look(enough int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turns := c.turns.Load(); turns != c.seen {
		c.seen, c.looks = turns, 0
	} else {
		c.looks++
	}
	if c.looks >= enough && c.state.CompareAndSwap(idle, leaving) {
		c.reads.at.Store(unset)
		_ = c.Conn.SetReadDeadline(aPast) // a connection that is gone needs none
	}
}

// SetReadDeadline sets the deadline for the next read that has to wait. One that is long past ends
// the read under way, as net/http expects.
func (c *conn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.deadline.Store(0)
		return nil
	}
	c.deadline.Store(t.UnixNano())
	if t.Before(started) {
		c.reads.at.Store(unset)
		return c.Conn.SetReadDeadline(t)
	}
	return nil
}

// started is the start of the process.
var started = time.Now()

// SetWriteDeadline sets the deadline for writes, or leaves one that is as good.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return c.writes.set(0, c.Conn.SetWriteDeadline)
	}
	return c.writes.set(t.UnixNano(), c.Conn.SetWriteDeadline)
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
		}
		return n, err
	}
	return c.read(p)
}

func (c *conn) read(p []byte) (int, error) {
	if l, ok := c.Conn.(*lean); !ok || !l.buffered() { // it may have to wait
		if err := c.reads.set(c.deadline.Load(), c.Conn.SetReadDeadline); err != nil {
			return 0, err
		}
	}
	if c.state.Load() == leaving {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.state.Load() == leaving {
		err = io.EOF
	}
	return n, err
}

// WriteBuffers writes all of pieces, in one system call as far as the system accepts them.
func (c *conn) WriteBuffers(pieces [][]byte) error {
	l, ok := c.Conn.(*lean)
	if !ok {
		return errors.ErrUnsupported // TLS has its own
	}
	return l.write(pieces)
}

// Close closes the connection, or hands it over: a service closes one when it cannot read.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.end(c)
}

// free takes the deadlines off a connection that was taken from its service, and reports whether it
// was.
func (c *conn) free() bool {
	if c.state.Load() != leaving {
		return false
	}
	c.mu.Lock() // look may be about to set a deadline, which the next service must not meet
	defer c.mu.Unlock()
	return c.SetDeadline(time.Time{}) == nil
}

// A secureConn is a conn over TLS, which servers recognize by these methods.
type secureConn struct {
	*conn
	secure *tls.Conn
	cork   *cork // under it
}

// Handshake is bounded by the deadline for reads.
func (c *secureConn) Handshake() error {
	if err := c.reads.set(c.deadline.Load(), c.Conn.SetReadDeadline); err != nil {
		return err
	}
	c.cork.shake(true)
	defer c.cork.shake(false)
	return c.secure.HandshakeContext(context.Background()) // the deadline set above bounds it
}

// ConnectionState is that of TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// WriteBuffers writes all of pieces, in one system call for every 64 KB.
func (c *secureConn) WriteBuffers(pieces [][]byte) error { return c.cork.writeOver(c.secure, pieces) }

// An alarm is a deadline of a socket. To set one costs as much as to read a request's header, so it
// is set for an eighth more than the time asked for, and left alone until that is used up.
type alarm struct {
	at    atomic.Int64 // Unix nanoseconds; 0 for none
	slack int32        // milliseconds
}

// unset is the time of an alarm that has to be set, whatever for.
const unset = -1

// set has the alarm go off at the time at, in Unix nanoseconds and 0 for never, or within an eighth
// of the time until then more.
func (a *alarm) set(at int64, deadline func(time.Time) error) error {
	now := a.at.Load()
	if at == now || at > 0 && now >= at && now-at <= int64(a.slack)*int64(time.Millisecond) {
		return nil
	}
	var t time.Time
	if at > 0 {
		slack := time.Until(time.Unix(0, at)) / 8
		a.slack = int32(slack / time.Millisecond) //nolint:gosec // a timeout is within a day
		t = time.Unix(0, at).Add(slack)
		at = t.UnixNano()
	}
	a.at.Store(at)
	return deadline(t)
}
