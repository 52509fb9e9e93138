package proxy

import (
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/metrics"
)

// observeDocument records how the document was obtained.
func (o *observed) observeDocument(s *cache.Status, err error) {
	switch {
	case err != nil, s.Fwd != "":
		o.cache = metrics.Miss
	case s.Stale:
		o.cache = metrics.Stale
	default:
		o.cache = metrics.Hit
	}
	o.collapsed = s.Collapsed
}

// finish ends a request whose answer is ready: it is counted, traced and logged, and its writing gets
// a deadline. It began when all of it had arrived; the zero time means an incomplete request.
func (s *Server) finish(r *request, began time.Time) {
	now, took := time.Now(), time.Duration(0)
	if !began.IsZero() {
		took = now.Sub(began)
	}
	r.endSpan()
	if s.options.Meter != nil {
		s.options.Meter.Observe(metrics.Answer{
			Target: r.target, Cache: r.cache, Collapsed: r.collapsed, Code: r.ctx.Response.StatusCode(), Took: took,
		})
	}
	s.logAccess(r, took)
	if c := connOf(r.ctx); c != nil {
		_ = c.SetWriteDeadline(now.Add(s.options.WriteTimeout)) // it fails if the connection is gone, as the write will
	}
	r.release()
}

// startSpan begins the span of a request, under a trusted proxy's span if it names one; a fetch
// that the request causes is part of it. Without tracing it costs nothing.
func (s *Server) startSpan(r *request) {
	if s.options.Tracer != nil {
		r.Context, r.span = s.options.Tracer.Start(r.traced(), "request", trace.WithSpanKind(trace.SpanKindServer))
	}
}

// endSpan ends the span of a request, without any value that a client can choose.
func (r *request) endSpan() {
	if r.span == nil {
		return
	}
	if r.span.IsRecording() {
		method, code := "_OTHER", r.ctx.Response.StatusCode()
		switch m := string(r.ctx.Method()); m {
		case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodOptions:
			method = m
		}
		r.span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", code))
		if r.target != metrics.Other {
			route := &routes[r.target]
			r.span.SetName(method + " " + route.path)
			r.span.SetAttributes(attribute.String("http.route", route.path), attribute.String("vitrine.resource", string(route.resource)))
		}
		if r.cache != metrics.None {
			r.span.SetAttributes(attribute.String("vitrine.cache", r.cache.String()), attribute.Bool("vitrine.collapsed", r.collapsed))
		}
		if code >= fasthttp.StatusInternalServerError {
			r.span.SetStatus(codes.Error, "")
		}
	}
	r.span.End()
}
