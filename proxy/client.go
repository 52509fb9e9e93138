package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"vitrine/proxy/represent"
)

// Serve answers requests on ln until Shutdown is called, and then returns nil; at once if it was
// called before. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	stop := context.AfterFunc(s.accepting, func() { _ = ln.Close() })
	defer stop()
	for s.accepting.Err() == nil {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
		}
		made := s.newClient(c)
		if s.open.Add(1) > int64(s.options.MaxConnections) {
			s.refuse(made)
			continue
		}
		// Not by fasthttp's Serve, whose pool of workers keeps a channel for each connection.
		go func() { _ = s.app.Server().ServeConn(made) }() // its error was answered, or the client is gone
	}
	return nil
}

// Connections is the number of open connections.
func (s *Server) Connections() int { return int(s.open.Load()) }

// refusalTime bounds the refusal of a connection.
const refusalTime = 100 * time.Millisecond

// refuse answers a connection that cannot be served with 503, and closes it. Nothing is read from
// it, so the client's system may discard the answer; waiting to prevent that is not worth it. Over
// TLS there is no answer: nobody else is accepted meanwhile, and a handshake takes as long as the
// client likes.
func (s *Server) refuse(c net.Conn) {
	defer c.Close() //nolint:errcheck // it was answered, or is gone
	s.notice.Do(func() {
		s.options.Logger.Warn("too many connections: some are refused", "limit", s.options.MaxConnections)
	})
	if _, secure := c.(handshaker); secure {
		return
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(c, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	s.app.Server().ErrorHandler(ctx, errTooManyConnections)
	ctx.SetConnectionClose()
	_ = c.SetDeadline(time.Now().Add(refusalTime)) // it fails if the connection is gone, as the write will
	if _, err := ctx.Response.WriteTo(c); err != nil {
		s.options.Logger.Debug("cannot refuse a connection", "error", err)
	}
}

// A client is the connection of a client, or of a proxy in front of it.
type client struct {
	net.Conn
	server  *Server
	framing *framing // nil between two requests
	answer  atomic.Pointer[outgoing]
	placed  atomic.Bool // has a place among large requests
	closed  atomic.Bool
}

// rests is a connection that tracks whether it is between two requests, as listen's do.
type rests interface {
	Idle()
	Busy()
}

// turn passes on the connection's state in fasthttp.
func (c *client) turn(state fasthttp.ConnState) {
	if r, ok := c.Conn.(rests); ok {
		switch state {
		case fasthttp.StateIdle:
			r.Idle()
		case fasthttp.StateActive:
			r.Busy()
		}
	}
}

// A secureClient is a client over TLS, which fasthttp recognizes by these methods.
type secureClient struct {
	*client
	handshaker
}

type handshaker interface {
	Handshake() error
	ConnectionState() tls.ConnectionState
}

func (s *Server) newClient(c net.Conn) net.Conn {
	made := &client{Conn: c, server: s}
	if h, ok := c.(handshaker); ok {
		return &secureClient{client: made, handshaker: h}
	}
	return made
}

// clientOf returns the connection of a request.
func clientOf(ctx *fasthttp.RequestCtx) *client { return clientIn(ctx.Conn()) }

// clientIn returns the client that newClient returned as c, or nil.
func clientIn(c net.Conn) *client {
	switch c := c.(type) {
	case *client:
		return c
	case *secureClient:
		return c.client
	}
	return nil
}

// framingOf returns the framing of a request: an empty one if nothing was read on its connection.
func framingOf(ctx *fasthttp.RequestCtx) *framing {
	if f := clientOf(ctx).framing; f != nil {
		return f
	}
	return new(framing)
}

// largeRequest is how much may come of a request before it needs a place. To read and negotiate a
// header of 12 KiB takes up to 0.3 ms, fifty times an ordinary hit.
const largeRequest = 2 << 10

// leave gives up the place of a large request, before waiting for a document, the client or a log.
func (c *client) leave() {
	if c.placed.Load() && c.placed.Swap(false) { // a hit has none, and so only looks
		c.server.large.Give()
	}
}

// Read reads, follows the framing, and waits for a place if the request is large.
func (c *client) Read(p []byte) (int, error) {
	c.leave()
	if f := c.framing; f != nil && f.refused != nil {
		f.told = true
		return 0, f.refused
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	if c.framing == nil {
		c.framing = newFraming(c.server.options.MaxBodyBytes)
	}
	f := c.framing
	if f.unanswered += n; f.unanswered > largeRequest {
		c.server.large.Take()
		c.placed.Store(true)
	}
	if n, f.refused = f.follow(p[:n]); f.refused != nil {
		if err = nil; n == 0 {
			return c.Read(p)
		}
	}
	return n, err
}

// answered ends a request, and gives the framing back unless more has come.
func (c *client) answered() {
	if f := c.framing; f != nil && f.answer() {
		c.framing = nil
		framings.Put(f)
	}
}

// continues is fasthttp's interim answer to a request that waits with its content.
const continues = "HTTP/1.1 100 Continue\r\n\r\n"

// errFlush is an answer that was prepared for another header than fasthttp wrote.
var errFlush = errors.New("fasthttp wrote something else than the header of the prepared answer")

// Write writes the header p, followed by the prepared rest of the answer. That relies on fasthttp's
// header coming alone and whole: with anything else the connection is closed, since a header must
// not go without its body.
func (c *client) Write(p []byte) (int, error) {
	c.leave()
	if string(p) == continues {
		if c.framing.came() {
			return len(p), nil // it is not waited for (RFC 9110, section 10.1.1)
		}
		c.limitWrites(time.Now())
	}
	o := c.answer.Swap(nil)
	if o == nil {
		return c.Conn.Write(p)
	}
	defer o.release()
	if !o.follows(p) {
		c.server.options.Logger.Error("connection closed before an answer", "error", errFlush, "bytes", len(p))
		return 0, errors.Join(errFlush, c.Conn.Close())
	}
	if err := o.writeTo(c.Conn, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// limitWrites gives what is written next its time; the one for the answer before may be over.
func (c *client) limitWrites(now time.Time) {
	_ = c.SetWriteDeadline(now.Add(c.server.options.WriteTimeout)) // it fails if the connection is gone, as the write will
}

// prepare sets the answer to write after the next header; nil for none.
func (c *client) prepare(o *outgoing) {
	if o = c.answer.Swap(o); o != nil {
		o.release()
	}
}

// Close closes the connection, and makes room for another.
func (c *client) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.server.open.Add(-1)
	}
	c.leave()
	c.prepare(nil)
	return c.Conn.Close()
}

// maxPieces is the number of pieces written at a time: enough for a header and a body, or some
// kilobytes of a body written item by item.
const maxPieces = 64

// ownRoom is the room for the lines that fasthttp writes itself, which come first: status, Date,
// Content-Length, Connection.
const ownRoom = 512

// outgoing is the prepared part of an answer, which a connection writes together with fasthttp's
// own lines.
type outgoing struct {
	status int
	room   [2 << 10]byte
	head   []byte // in room: room for fasthttp's lines, then the prepared ones
	pieces [maxPieces][]byte
	n      int // of pieces
	items  represent.Items
	next   int  // of items
	more   bool // items are left
	lease  represent.Lease
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing {
	o, _ := outgoings.Get().(*outgoing)
	o.head = o.room[:ownRoom]
	o.n = 1 // the header
	return o
}

// add adds lines to the header.
func (o *outgoing) add(lines []byte) { o.head = append(o.head, lines...) }

// content adds the content of a representation, which is the last piece.
func (o *outgoing) content(rep *represent.Representation, lease represent.Lease) {
	o.lease = lease
	if rep.Body != nil {
		o.pieces[o.n] = rep.Body
		o.n++
		return
	}
	o.items, o.more = rep.Items, true
}

// release ends the answer, written or not.
func (o *outgoing) release() {
	o.lease.Release()
	clear(o.pieces[:o.n])
	o.items, o.next, o.more, o.lease = represent.Items{}, 0, false, represent.Lease{}
	outgoings.Put(o)
}

// headEnd ends a header.
var headEnd = []byte("\r\n\r\n")

// follows reports whether p is one whole header, of the answer's status.
func (o *outgoing) follows(p []byte) bool {
	var room [16]byte
	begin := strconv.AppendInt(append(room[:0], "HTTP/1.1 "...), int64(o.status), 10)
	return len(p) <= ownRoom && bytes.HasPrefix(p, begin) && bytes.Index(p, headEnd) == len(p)-len(headEnd)
}

// buffersWriter is a connection that writes many pieces at once, as those of listen do.
type buffersWriter interface {
	WriteBuffers(pieces [][]byte) error
}

// writeTo writes the answer after a header of fasthttp's: in one system call if c is a
// [buffersWriter], as far as the system accepts it.
func (o *outgoing) writeTo(c net.Conn, own []byte) error {
	own = own[:len(own)-len("\r\n")] // the prepared part has the end of the header
	from := ownRoom - len(own)
	copy(o.head[from:], own)
	o.pieces[0] = o.head[from:]
	for {
		if o.more {
			var pieces [][]byte
			var done bool
			pieces, o.next, done = o.items.Pieces(o.pieces[:o.n], o.next)
			o.n, o.more = len(pieces), !done
		}
		if err := o.write(c); err != nil || !o.more {
			return err
		}
		clear(o.pieces[:o.n]) // the pool must not keep a document
		o.n = 0
	}
}

// write writes the pieces.
func (o *outgoing) write(c net.Conn) error {
	if w, ok := c.(buffersWriter); ok {
		return w.WriteBuffers(o.pieces[:o.n])
	}
	buffers := net.Buffers(o.pieces[:o.n])
	_, err := buffers.WriteTo(c)
	return err
}
