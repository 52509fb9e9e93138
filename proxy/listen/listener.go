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

// A Listener is one service's share of a [Socket]. It implements [net.Listener].
type Listener struct {
	socket *Socket
	tls    *tls.Config // nil without TLS
	once   sync.Once
	closed chan struct{}
	handed atomic.Bool // connections go to the next service; set with mu held

	mu    sync.Mutex // guards the field below
	conns map[*conn]struct{}
}

const (
	// lookEvery is how often a listener that ends looks for idle connections.
	lookEvery = 10 * time.Millisecond
	// idleLooks is how many looks a connection must be idle before it is closed without a
	// successor: a client in the middle of sending its next request has sent it by then.
	idleLooks = 25
)

// Accept waits for a connection. Its error is net.ErrClosed once the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // even if there are connections
		return nil, net.ErrClosed
	default:
	}
	l.socket.begin.Do(func() { go l.socket.accept() })
	select {
	case <-l.closed:
	case <-l.socket.closed:
	case c := <-l.socket.conns:
		if taken := l.take(c); taken != nil {
			return taken, nil
		}
		l.socket.pass(c)
	}
	return nil, net.ErrClosed
}

// Addr is the socket's address.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Close stops accepting. Accepted connections and the socket stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// take makes p one of the listener's connections; nil if they are handed over: the listener may
// have been closed between the choice of p and now, and HandOver have counted.
func (l *Listener) take(p passed) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handed.Load() {
		return nil
	}
	if l.tls != nil && !p.begun {
		p.Conn = tls.Server(&cork{Conn: p.Conn, handshakes: l.socket.handshakes}, l.tls)
	}
	c := &conn{Conn: p.Conn, listener: l}
	l.conns[c] = struct{}{}
	if secure, ok := p.Conn.(*tls.Conn); ok {
		under, _ := secure.NetConn().(*cork)
		return &secureConn{conn: c, secure: secure, cork: under}
	}
	return c
}

// HandOver closes the listener and passes its connections to the socket's other listener, each as
// soon as it is between two requests. It returns when none is left, or with ctx's error.
func (l *Listener) HandOver(ctx context.Context) error {
	l.mu.Lock()
	l.handed.Store(true)
	l.mu.Unlock()
	return l.leave(ctx, 0)
}

// Drain closes the listener, which has to be the socket's last, and its connections, each when it
// has been idle for a while. It returns when none is left, or with ctx's error. A connection that
// the socket has accepted is served, since the client has sent its request; those that come later
// are left to the process that has the socket next, if systemd holds it.
func (l *Listener) Drain(ctx context.Context) error {
	l.socket.finish(ctx)
	return l.leave(ctx, idleLooks)
}

func (l *Listener) leave(ctx context.Context, looks int32) error {
	_ = l.Close() // it cannot fail
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		l.mu.Lock()
		for c := range l.conns {
			c.look(looks)
		}
		left := len(l.conns)
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// CloseConns closes the connections that are left after HandOver or Drain, in the middle of
// whatever they are doing.
func (l *Listener) CloseConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		under := c.Conn
		if secure, ok := under.(*tls.Conn); ok {
			under = secure.NetConn() // without a last message, for which the client may have no room
		}
		_ = under.Close() // its service then closes c
	}
}

func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// A conn is a connection of a service. The service calls [conn.Idle] when it is between two
// requests, with nothing read of the next one, and [conn.Busy] when that has begun. Before the
// first request the connection knows by itself.
type conn struct {
	net.Conn
	listener *Listener
	state    atomic.Int32
	turns    atomic.Uint32 // how often it became idle
	closed   atomic.Bool

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
	defer c.listener.forget(c)
	if c.state.Load() != leaving || !c.listener.handed.Load() {
		return c.Conn.Close()
	}
	c.mu.Lock() // look may be about to set a deadline, which the next service must not meet
	err := c.SetDeadline(time.Time{})
	c.mu.Unlock()
	if err != nil {
		return c.Conn.Close()
	}
	c.listener.socket.pass(passed{Conn: c.Conn, begun: true})
	return nil
}
