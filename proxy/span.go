package proxy

import (
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"vitrine/proxy/metrics"
)

// startSpan begins the span of a request, under that which its traceparent names, and has the fetch that the request
// may cause be a part of it. It is nil where nothing is traced, which costs nothing.
func (s *Server) startSpan(r *request) trace.Span {
	if s.tracer == nil {
		return nil
	}
	parent := r.Context
	if validTraceParent(r.traceParent) {
		header := propagation.MapCarrier{"traceparent": string(r.traceParent)}
		if validTraceState(r.traceState) {
			header["tracestate"] = string(r.traceState)
		}
		parent = propagation.TraceContext{}.Extract(parent, header)
	}
	var span trace.Span
	r.Context, span = s.tracer.Start(parent, "request", trace.WithSpanKind(trace.SpanKindServer))
	return span
}

// endSpan ends the span of a request, with nothing in it that a client can choose. A request whose answer was not
// observed has come to a panic.
func (s *Server) endSpan(ctx *fasthttp.RequestCtx, o *observed) {
	if o.span == nil {
		return
	}
	if o.span.IsRecording() {
		method, code := "_OTHER", ctx.Response.StatusCode()
		switch m := string(ctx.Method()); m {
		case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodOptions:
			method = m
		}
		if !o.done {
			code = fasthttp.StatusInternalServerError
		}
		o.span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", code))
		if o.target != metrics.Other {
			route := &routes[o.target]
			o.span.SetName(method + " " + route.path)
			o.span.SetAttributes(attribute.String("http.route", route.path), attribute.String("vitrine.resource", string(route.resource)))
		}
		if o.cache != metrics.None {
			o.span.SetAttributes(attribute.String("vitrine.cache", o.cache.String()), attribute.Bool("vitrine.collapsed", o.collapsed))
		}
		if code >= fasthttp.StatusInternalServerError {
			o.span.SetStatus(codes.Error, "")
		}
	}
	o.span.End()
}
