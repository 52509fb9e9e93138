package proxy

import (
	"bytes"
	"context"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/proxy/negotiate"
)

// request holds the header fields that the server looks at, and the outcome. It is valid until the answer was made; its
// values are slices of the request's header, nil for fields that are absent.
//
// It is also the context under which documents are asked for: it ends with the server, not with the client, and lends
// the trace of the request to the fetch that the request may cause.
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
	closes                  bool // Connection has close, or where the request ends is in doubt
	malformed               bool // has a field that cannot be right
	madeID                  [requestIDLength]byte
	observed
}

// observed is what is counted, traced and logged of a request beside its status and its time.
type observed struct {
	target    metrics.Target
	cache     metrics.Cache
	collapsed bool
	bytes     int                // of the body as sent
	moment    *moment            // of the document that was sent; nil for none
	encoding  negotiate.Encoding // of the same
	span      trace.Span         // nil where nothing is traced
}

func (o *observed) reset() { *o = observed{target: metrics.Other, encoding: negotiate.Identity} }

var _ cache.Lender = (*request)(nil)

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
		// Twice is said how long the body is. The chunks count, and what follows on the connection is not trusted to be
		// a request (RFC 9112, section 6.1).
		r.closes = true
	}
}

// readField notes a line of the header. Names are told apart by their length first, since most are none of these.
func (r *request) readField(name, value []byte) {
	if bytes.IndexByte(name, ' ') >= 0 { // also where it continues the line before (RFC 9112, sections 5.1 and 5.2)
		r.malformed = true
		return
	}
	is := func(lower string) bool { return negotiate.EqualFold(name, lower) }
	switch len(name) {
	case len("accept"):
		if is("accept") {
			put(&r.accept, value)
		} else if is("origin") {
			put(&r.origin, value)
		}
	case len("if-match"):
		if is("if-match") {
			put(&r.conditions.IfMatch, value)
		}
	case len("connection"):
		if is("connection") {
			r.closes = r.closes || negotiate.HasToken(value, "close")
		} else if is("tracestate") {
			put(&r.traceState, value)
		}
	case len("traceparent"):
		if is("traceparent") {
			put(&r.traceParent, value)
		}
	case len("x-request-id"):
		if is("x-request-id") {
			put(&r.clientID, value)
		}
	case len("if-none-match"):
		if is("if-none-match") {
			put(&r.conditions.IfNoneMatch, value)
		}
	case len("content-length"):
		r.sized = r.sized || is("content-length")
	case len("accept-encoding"):
		if is("accept-encoding") {
			put(&r.acceptEncoding, value)
		}
	case len("transfer-encoding"): // which is as long as if-modified-since
		if is("if-modified-since") {
			put(&r.conditions.IfModifiedSince, value)
		} else if is("transfer-encoding") {
			r.chunked = true
			r.malformed = r.malformed || !negotiate.EqualFold(value, "chunked") // identity (RFC 9112, section 6.1)
		}
	case len("if-unmodified-since"):
		if is("if-unmodified-since") {
			put(&r.conditions.IfUnmodifiedSince, value)
		}
	case len("access-control-request-method"):
		if is("access-control-request-method") {
			put(&r.requestMethod, value)
		}
	}
}

// put notes a line of a field; lines of the same name are one list (RFC 9110, section 5.3). The first is kept without
// room behind it, so that the second is appended to a copy, and many cost as much as a long one.
func put(field *[]byte, value []byte) {
	if *field == nil {
		*field = value[:len(value):len(value)]
		return
	}
	*field = append(append(*field, ", "...), value...)
}

// Lend gives the values that outlive the request.
func (r *request) Lend() context.Context {
	if r.span != nil {
		return r.Context
	}
	return r.traced()
}

// traced is the context of the trace that the request belongs to by its own word, which is taken from a trusted proxy
// alone: a visitor can neither have spans made nor lead those of the CMS into a trace of theirs.
func (r *request) traced() context.Context {
	if r.traceParent == nil || !r.fromProxy() {
		return r.Context
	}
	return propagation.TraceContext{}.Extract(r.Context, propagation.MapCarrier{
		"traceparent": string(r.traceParent), "tracestate": string(r.traceState),
	})
}

// fromProxy reports whether the request came from a trusted proxy.
func (r *request) fromProxy() bool {
	c := r.server.app.AcquireCtx(r.ctx)
	defer r.server.app.ReleaseCtx(c)
	return c.IsProxyTrusted()
}

// client is the address that the request came from, as far as it is known.
func (r *request) client() string {
	c := r.server.app.AcquireCtx(r.ctx)
	defer r.server.app.ReleaseCtx(c)
	return c.IP()
}

// id is the client's name for the request if it has one that can be repeated, else one that is made.
func (r *request) id() []byte {
	if saneRequestID(r.clientID) {
		return r.clientID
	}
	if r.madeID[0] == 0 {
		r.server.ids.put(&r.madeID)
	}
	return r.madeID[:]
}
