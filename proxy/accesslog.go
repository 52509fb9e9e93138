package proxy

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// logAccess logs a request, if there is an access log, and how long the answer took; nothing of that
// if the request was incomplete.
func (s *Server) logAccess(r *request, took time.Duration) {
	if s.options.AccessLog == nil {
		return
	}
	req, resp := &r.ctx.Request.Header, &r.ctx.Response
	attrs := append(make([]slog.Attr, 0, 16), slog.String("client", r.client()))
	if len(req.RawHeaders()) > 0 { // fasthttp has defaults for unread parts
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
