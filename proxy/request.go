package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream"
)

// request holds the header fields that the server uses, and the outcome. It is valid until the
// answer is made; its values are slices of the request's header, nil for absent fields.
//
// It is also the context of document lookups: it ends with the server, not with the client, and
// lends the request's trace to a fetch that the request causes.
type request struct {
	context.Context
	server *Server
	ctx    *fasthttp.RequestCtx

	accept, acceptEncoding  []byte
	conditions              negotiate.Conditions
	origin, requestMethod   []byte
	clientID                []byte // X-Request-Id as sent
	traceParent, traceState []byte
	sized, chunked          bool // has Content-Length, Transfer-Encoding
	closes                  bool // Connection has close, or the end of the request is in doubt
	malformed               bool // has an invalid field
	read                    bool // fasthttp has the whole header
	madeID                  string

	// What is counted and logged besides the status and the duration.
	route     *route // nil for none
	cache     metrics.Cache
	collapsed bool
	bytes     int                // of the body as sent
	encoding  negotiate.Encoding // of the same
	trace     upstream.Trace     // of a fetch that it may have caused; zero for none
}

var _ cache.Lender = (*request)(nil)

// requestKey is the key of a Fiber context's request.
type requestKey struct{}

func requestOf(c *fiber.Ctx) *request {
	r, _ := c.Context().UserValue(requestKey{}).(*request)
	return r
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest reads the header of a request.
func (s *Server) newRequest(ctx *fasthttp.RequestCtx) *request {
	r, _ := requests.Get().(*request)
	*r = request{Context: s.base, server: s, ctx: ctx, encoding: negotiate.Identity}
	r.readFields(ctx.Request.Header.RawHeaders())
	return r
}

// release ends the request. Nothing may refer to it any more.
func (r *request) release() {
	f := &clientOf(r.ctx).framing
	f.answered, f.unanswered = f.answered+1, 0
	*r = request{}
	requests.Put(r)
}

// readFields reads the lines of a header, in one walk.
func (r *request) readFields(raw []byte) {
	for len(raw) > 0 {
		line := raw
		if end := bytes.IndexByte(raw, '\n'); end >= 0 {
			line, raw = raw[:end], raw[end+1:]
		} else {
			raw = nil
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			continue // the end of the header
		}
		r.readField(line[:colon], negotiate.TrimBlanks(bytes.TrimSuffix(line[colon+1:], []byte("\r"))))
	}
	if r.sized && r.chunked {
		// The length of the body is given twice. The chunks count, and what follows on the
		// connection is not trusted to be a request (RFC 9112, section 6.1).
		r.closes = true
	}
}

// readField records a header line.
func (r *request) readField(name, value []byte) {
	if bytes.IndexByte(name, ' ') >= 0 { // RFC 9112, section 5.1
		r.malformed = true
		return
	}
	var room [len("access-control-request-method")]byte
	if len(name) == 0 || len(name) > len(room) || strings.IndexByte("aciotx", name[0]|' ') < 0 { // most are none of these
		return
	}
	switch string(utils.ToLowerBytes(append(room[:0], name...))) {
	case "accept":
		put(&r.accept, value)
	case "accept-encoding":
		put(&r.acceptEncoding, value)
	case "access-control-request-method":
		put(&r.requestMethod, value)
	case "connection":
		r.closes = r.closes || negotiate.HasToken(value, "close")
	case "content-length":
		r.sized = true
	case "if-match":
		put(&r.conditions.IfMatch, value)
	case "if-modified-since":
		put(&r.conditions.IfModifiedSince, value)
	case "if-none-match":
		put(&r.conditions.IfNoneMatch, value)
	case "if-unmodified-since":
		put(&r.conditions.IfUnmodifiedSince, value)
	case "origin":
		put(&r.origin, value)
	case "traceparent":
		put(&r.traceParent, value)
	case "tracestate":
		put(&r.traceState, value)
	case "transfer-encoding":
		r.chunked = true
		r.malformed = r.malformed || !negotiate.EqualFold(value, "chunked") // identity (RFC 9112, section 6.1)
	case "x-request-id":
		put(&r.clientID, value)
	}
}

// put records a field's line; lines of the same name are one list (RFC 9110, section 5.3). The
// first is kept without spare capacity, so that appending copies it once, and many lines cost as
// much as one long line.
func put(field *[]byte, value []byte) {
	if *field == nil {
		*field = value[:len(value):len(value)]
		return
	}
	*field = append(append(*field, ", "...), value...)
}

// Lend returns the values that outlive the request.
func (r *request) Lend() context.Context {
	r.trace = cmp.Or(r.trusted(), upstream.NewTrace())
	return upstream.WithTrace(r.Context, r.trace)
}

// trusted is the trace that a trusted proxy names; zero otherwise. A visitor cannot join the CMS's
// work to a trace of their own.
func (r *request) trusted() upstream.Trace {
	if r.traceParent == nil {
		return upstream.Trace{}
	}
	if _, trusted := r.sender(); !trusted {
		return upstream.Trace{}
	}
	return upstream.ParseTrace(string(r.traceParent), string(r.traceState))
}

// sender is the address that the request came from, if known, and whether a trusted proxy has
// passed it on.
func (r *request) sender() (client string, trusted bool) {
	c := r.server.app.AcquireCtx(r.ctx)
	defer r.server.app.ReleaseCtx(c)
	return c.IP(), c.IsProxyTrusted()
}

// id is the client's id for the request if it is valid, otherwise a new one.
func (r *request) id() string {
	if requestID.Match(r.clientID) {
		return string(r.clientID)
	}
	if r.madeID == "" {
		r.madeID = rand.Text()
	}
	return r.madeID
}

// requestID is an id of a client that can be repeated in a header and in the log.
var requestID = regexp.MustCompile(`^[\w.:=+/@-]{1,128}$`)
