package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// A listener bounds the connections that are served at a time and notes of each what its requests are asked for.
type listener struct {
	net.Listener
	server *Server
}

// Accept waits for a connection that can be served. What is too many is told so.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := l.server
		if s.open.Add(1) <= s.maxConns {
			return s.newConn(c), nil
		}
		s.open.Add(-1)
		s.refuse(c)
	}
}

// A conn is the connection of a client, or of a proxy in front of it.
type conn struct {
	net.Conn
	server  *Server
	peer    netip.Addr // invalid for a Unix socket
	trusted bool       // the peer is a proxy whose word about its clients is taken
	unended int        // bytes read since the last end of a line
	closed  atomic.Bool
	request request // the one under way
	rests   rests   // nil where nobody wants to know
}

// rests is told when a connection is between two requests, as listen's connections are.
type rests interface {
	Idle()
	Busy()
}

// turns is a connection that passes on what fasthttp says of its state.
type turns interface{ turn(fasthttp.ConnState) }

func (c *conn) turn(state fasthttp.ConnState) {
	switch {
	case c.rests == nil:
	case state == fasthttp.StateIdle:
		c.rests.Idle()
	case state == fasthttp.StateActive:
		c.rests.Busy()
	}
}

// A secureConn is a conn over TLS, which fasthttp knows by these methods.
type secureConn struct {
	*conn
	handshaker
}

type handshaker interface {
	Handshake() error
	ConnectionState() tls.ConnectionState
}

func (s *Server) newConn(c net.Conn) net.Conn {
	made := &conn{Conn: c, server: s}
	if addr, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		made.peer = addr.AddrPort().Addr().Unmap()
	}
	made.rests, _ = c.(rests)
	made.trusted = s.proxies.trust(made.peer)
	if h, ok := c.(handshaker); ok {
		return &secureConn{conn: made, handshaker: h}
	}
	return made
}

// connOf is the connection of a request, nil for a request that came over none.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	switch c := ctx.Conn().(type) {
	case *conn:
		return c
	case *secureConn:
		return c.conn
	}
	return nil
}

// Read reads, and counts what belongs to no whole line yet.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		c.unended = n - i - 1
	} else {
		c.unended += n
	}
	return n, err
}

// Close closes the connection, and makes room for another.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.server.open.Add(-1)
	}
	return c.Conn.Close()
}

const (
	// maxRefusals is how many connections are told at a time that there are too many; beyond, they are just closed.
	maxRefusals = 64
	// refusalTime is how long telling one may take.
	refusalTime = time.Second
	// refusalNotice is how often the log is told.
	refusalNotice = time.Minute
)

// refuse answers a connection that cannot be served with 503, and closes it. One that was accepted while Shutdown
// closed the listener is just closed: Shutdown may not be waiting any more for who would answer it.
func (s *Server) refuse(c net.Conn) {
	if now, last := time.Now().UnixNano(), s.noticed.Load(); now-last > int64(refusalNotice) && s.noticed.CompareAndSwap(last, now) {
		s.log.Warn("too many connections: some are refused", "limit", s.maxConns)
	}
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = c.Close() // nothing was promised to it
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.refusals
		_ = c.Close() // as above
		return
	}
	s.refusing.Go(func() {
		defer func() { <-s.refusals }()
		defer c.Close() //nolint:errcheck // it was answered, or went away
		if err := s.tellBusy(c); err != nil {
			s.log.Debug("cannot refuse a connection", "error", err)
		}
	})
}

// tellBusy writes the answer, and reads what the client sends until it has closed its side: if the connection were
// closed over unread bytes, the client's system could throw the answer away.
func (s *Server) tellBusy(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(refusalTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(new(fasthttp.Request), c.RemoteAddr(), nil)
	ctx.Response.Header.SetNoDefaultContentType(true)
	s.failUnread(ctx, errTooManyConnections)
	ctx.SetConnectionClose()
	if _, err := ctx.Response.WriteTo(c); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return fmt.Errorf("close writing: %w", err)
		}
	}
	if _, err := io.CopyN(io.Discard, c, int64(s.maxTarget+s.maxHeader)); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}
