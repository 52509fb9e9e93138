package proxy

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"vitrine/proxy/negotiate"
	"vitrine/proxy/processors"
)

// clients are the connections of clients, and what they share.
type clients struct {
	limits Limits
	large  processors.Half // for large requests
}

// A client is the connection of a client, or of a proxy in front of it.
type client struct {
	net.Conn
	of      *clients
	framing framing
	placed  bool // has a place among large requests
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

func (cs *clients) newClient(c net.Conn) net.Conn {
	made := &client{Conn: c, of: cs, framing: framing{limit: cs.limits.MaxBodyBytes}}
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

// largeRequest is how much may come of a request before it needs a place. To read and negotiate a
// header of 12 KiB takes up to 0.3 ms, fifty times an ordinary hit.
const largeRequest = 2 << 10

// leave gives up the place of a large request, before waiting for a document, the client or a log.
func (c *client) leave() {
	if c.placed {
		c.placed = false
		c.of.large.Give()
	}
}

// Read reads, follows the framing, and waits for a place if the request is large.
func (c *client) Read(p []byte) (int, error) {
	c.leave()
	f := &c.framing
	if f.refused != nil {
		f.told = true
		return 0, f.refused
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	if f.unanswered += n; f.unanswered > largeRequest {
		c.of.large.Take()
		c.placed = true
	}
	if n, f.refused = f.follow(p[:n]); f.refused != nil {
		if err = nil; n == 0 {
			return c.Read(p)
		}
	}
	return n, err
}

// continues is fasthttp's interim answer to a request that waits with its content.
const continues = "HTTP/1.1 100 Continue\r\n\r\n"

// Write writes, but drops an interim answer that is not waited for (RFC 9110, section 10.1.1).
func (c *client) Write(p []byte) (int, error) {
	c.leave()
	if string(p) == continues {
		if c.framing.came() {
			return len(p), nil
		}
		c.limitWrites(time.Now())
	}
	return c.Conn.Write(p)
}

// limitWrites gives what is written next its time; the one for the answer before may be over.
func (c *client) limitWrites(now time.Time) {
	_ = c.SetWriteDeadline(now.Add(c.of.limits.WriteTimeout)) // it fails if the connection is gone, as the write will
}

// expect leaves the Expect of a request to fasthttp, which compares it with case, only where a 100
// is due (RFC 9110, section 10.1.1): in HTTP/1.1, if content that is not refused is announced.
func (cs *clients) expect(h *fasthttp.RequestHeader) {
	value := h.Peek(fasthttp.HeaderExpect)
	if len(value) == 0 {
		return
	}
	size := h.ContentLength() // -1 for chunks, -2 for none
	if h.IsHTTP11() && (size == -1 || 0 < size && size <= cs.limits.MaxBodyBytes) && negotiate.HasToken(value, "100-continue") {
		h.Set(fasthttp.HeaderExpect, "100-continue")
	} else {
		h.Del(fasthttp.HeaderExpect)
	}
}
