package proxy

import (
	"bytes"
	"context"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
)

// A request is what a request is read for. It is valid inside the handler; its values are slices of the connection's
// buffer, nil for fields that are absent.
//
// It is also the context under which the source is asked: it ends with the server, not with the client, and lends the
// trace of the request to the fetch that the request may cause.
type request struct {
	context.Context

	terms *terms

	accept, acceptEncoding                                   []byte
	ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince []byte
	origin, requestMethod                                    []byte
	requestID, traceParent, traceState                       []byte
}

var _ cache.Lender = (*request)(nil)

// Lend gives the values that outlive the request.
func (r *request) Lend() context.Context {
	if !validTraceParent(r.traceParent) || trace.SpanContextFromContext(r.Context).IsValid() {
		return r.Context
	}
	carrier := propagation.MapCarrier{"traceparent": string(r.traceParent)}
	if validTraceState(r.traceState) {
		carrier["tracestate"] = string(r.traceState)
	}
	return propagation.TraceContext{}.Extract(r.Context, carrier)
}

// newRequest reads a request's fields, in one walk over what was sent. A connection has one request at a time, and
// keeps the room for it: what is handed to a source would be allocated otherwise.
func (s *Server) newRequest(ctx *fasthttp.RequestCtx) *request {
	var r *request
	if c := connOf(ctx); c != nil {
		r = &c.request
	} else {
		r = new(request)
	}
	*r = request{Context: s.base, terms: s.terms.Load()}
	for name, value := range ctx.Request.Header.All() {
		if field := r.field(name); field != nil {
			put(field, value)
		}
	}
	return r
}

// release ends the request. Nothing may hold it any more.
func (r *request) release() { *r = request{} }

// field is where the value of a field belongs, nil for one that nothing depends on.
func (r *request) field(name []byte) *[]byte {
	switch string(name) {
	case "Accept":
		return &r.accept
	case "Accept-Encoding":
		return &r.acceptEncoding
	case "If-Match":
		return &r.ifMatch
	case "If-None-Match":
		return &r.ifNoneMatch
	case "If-Modified-Since":
		return &r.ifModifiedSince
	case "If-Unmodified-Since":
		return &r.ifUnmodifiedSince
	case "Origin":
		return &r.origin
	case "Access-Control-Request-Method":
		return &r.requestMethod
	case "X-Request-Id":
		return &r.requestID
	case "Traceparent":
		return &r.traceParent
	case "Tracestate":
		return &r.traceState
	}
	return nil
}

// put notes a line of a field; lines of the same name are one list (RFC 9110, section 5.3).
func put(field *[]byte, value []byte) {
	if *field == nil {
		*field = value
		return
	}
	*field = bytes.Join([][]byte{*field, value}, []byte(", "))
}
