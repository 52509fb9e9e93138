package proxy

import (
	"bytes"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// A conn is the connection of a client, or of a proxy in front of it.
type conn struct {
	net.Conn
	server  *Server
	unended int      // bytes read since the last end of a line
	size    int      // bytes read since the last answer
	request *request // the current one
	answer  atomic.Pointer[outgoing]
	placed  atomic.Bool // has one of places
	closed  atomic.Bool
}

// rests is a connection that tracks whether it is between two requests, as listen's do.
type rests interface {
	Idle()
	Busy()
}

// turn passes on the connection's state in fasthttp.
func (c *conn) turn(state fasthttp.ConnState) {
	if r, ok := c.Conn.(rests); ok {
		switch state {
		case fasthttp.StateIdle:
			r.Idle()
		case fasthttp.StateActive:
			r.Busy()
		}
	}
}

// A secureConn is a conn over TLS, which fasthttp recognizes by these methods.
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
	if h, ok := c.(handshaker); ok {
		return &secureConn{conn: made, handshaker: h}
	}
	return made
}

// connOf returns the connection of a request, or nil.
func connOf(ctx *fasthttp.RequestCtx) *conn { return ownConn(ctx.Conn()) }

// ownConn returns the conn that newConn returned as c, or nil.
func ownConn(c net.Conn) *conn {
	switch c := c.(type) {
	case *conn:
		return c
	case *secureConn:
		return c.conn
	}
	return nil
}

// largeRequest is how much may come of a request before it needs a place. To read and negotiate a
// header of 12 KiB takes up to 0.3 ms, fifty times an ordinary hit.
const largeRequest = 2 << 10

// places are for large requests, while they use a processor: the other processors are for hits.
var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// leave gives up the place of a large request, before waiting for a document, the client or a log.
// A connection that is refused has no conn.
func (c *conn) leave() {
	if c != nil && c.placed.Load() && c.placed.Swap(false) { // a hit has none, and so only looks
		<-places
	}
}

// Read reads, counts the bytes of an incomplete line, and waits for a place if the request is large.
func (c *conn) Read(p []byte) (int, error) {
	c.leave()
	n, err := c.Conn.Read(p)
	if c.size += n; n > 0 && c.size > largeRequest {
		places <- struct{}{}
		c.placed.Store(true)
	}
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		c.unended = n - i - 1
	} else {
		c.unended += n
	}
	return n, err
}

// Write writes the header p, followed by the prepared rest of the answer.
func (c *conn) Write(p []byte) (int, error) {
	c.leave()
	if !bytes.HasSuffix(p, headEnd) {
		return c.Conn.Write(p)
	}
	o := c.answer.Swap(nil)
	if o == nil {
		return c.Conn.Write(p)
	}
	defer o.release()
	if err := o.writeTo(c.Conn, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// prepare sets the answer to write after the next header; nil for none.
func (c *conn) prepare(o *outgoing) {
	if o = c.answer.Swap(o); o != nil {
		o.release()
	}
}

// Close closes the connection, and makes room for another.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.server.open.Add(-1)
	}
	c.leave()
	c.prepare(nil)
	return c.Conn.Close()
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest reads the header of a request.
func (s *Server) newRequest(ctx *fasthttp.RequestCtx) *request {
	r, _ := requests.Get().(*request)
	*r = request{Context: s.base, server: s, ctx: ctx}
	r.reset()
	r.readFields(ctx.Request.Header.RawHeaders())
	if c := connOf(ctx); c != nil {
		c.request = r
	}
	return r
}

// release ends the request. Nothing may refer to it any more.
func (r *request) release() {
	if c := connOf(r.ctx); c != nil {
		c.request, c.size = nil, 0
	}
	*r = request{}
	requests.Put(r)
}
