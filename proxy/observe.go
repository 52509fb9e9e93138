package proxy

import (
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"vitrine/proxy/operator/metrics"
)

// startSpan begins the span of a request, under a trusted proxy's span if it names one; a fetch
// that the request causes is part of it.
func (r *request) startSpan(t trace.Tracer) {
	r.Context, r.span = t.Start(r.traced(), "request", trace.WithSpanKind(trace.SpanKindServer))
}

// endSpan ends the span of a request, without any value that a client can choose.
func (r *request) endSpan() {
	if r.span.IsRecording() {
		method, code := "_OTHER", r.ctx.Response.StatusCode()
		switch m := string(r.ctx.Method()); m {
		case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodOptions:
			method = m
		}
		r.span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", code))
		if r.route != nil {
			r.span.SetName(method + " " + r.route.path)
			r.span.SetAttributes(attribute.String("http.route", r.route.path), attribute.String("vitrine.resource", string(r.route.resource)))
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

// logAccess logs a request, and how long the answer took; nothing of that if the request was
// incomplete.
func (s *Server) logAccess(r *request, took time.Duration) {
	req, resp := &r.ctx.Request.Header, &r.ctx.Response
	client, _ := r.sender()
	attrs := append(make([]slog.Attr, 0, 16), slog.String("client", client))
	if r.read { // fasthttp has defaults for unread parts
		attrs = append(attrs,
			slog.String("method", string(req.Method())),
			slog.String("host", string(req.Host())),
			slog.String("target", string(req.RequestURI())),
			slog.String("protocol", string(req.Protocol())),
		)
	}
	attrs = append(attrs, slog.Int("status", resp.StatusCode()), slog.Int("bytes", r.bytes))
	if took > 0 {
		attrs = append(attrs, slog.Duration("duration", took))
	}
	attrs = append(attrs, slog.String("request_id", r.id()))
	status := resp.Header.Peek(cacheStatus)
	if r.moment != nil {
		status = r.moment.cacheStatus
	}
	for _, optional := range [...]struct{ name, value string }{
		{"encoding", r.encoding.String()},
		{"cache_status", string(status)},
		{"trace_id", r.traceID()},
		{"referer", string(req.Referer())},
		{"user_agent", string(req.UserAgent())},
	} {
		if optional.value != "" {
			attrs = append(attrs, slog.String(optional.name, optional.value))
		}
	}
	s.options.AccessLog.LogAttrs(s.base, slog.LevelInfo, "request", attrs...)
}

// traceID is the id of the request's trace, or empty.
func (r *request) traceID() string {
	ctx := r.Context
	if r.span == nil {
		ctx = r.traced()
	}
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}
