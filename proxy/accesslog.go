package proxy

import (
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"
)

// logAccess writes the line of a request that was answered, if there is an access log. Its duration is from the arrival
// of the whole request, at began, to the answer's being ready; the zero time stands for a request that did not arrive
// whole. Bytes are those of the body as sent.
func (s *Server) logAccess(ctx *fasthttp.RequestCtx, began time.Time) {
	if s.access == nil {
		return
	}
	req, resp := &ctx.Request.Header, &ctx.Response
	client := ""
	if addr := s.proxies.client(connOf(ctx), req); addr.IsValid() {
		client = addr.String()
	}
	bytes := 0
	if !ctx.IsHead() {
		bytes = len(resp.Body())
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("client", client))
	if len(req.RawHeaders()) > 0 { // fasthttp has defaults for what was not read
		attrs = append(attrs,
			slog.String("method", string(req.Method())),
			slog.String("host", string(req.Host())),
			slog.String("target", string(req.RequestURI())),
			slog.String("protocol", string(req.Protocol())),
		)
	}
	attrs = append(attrs, slog.Int("status", resp.StatusCode()), slog.Int("bytes", bytes))
	if !began.IsZero() {
		attrs = append(attrs, slog.Duration("duration", time.Since(began)))
	}
	attrs = append(attrs, slog.String("request_id", string(resp.Header.PeekBytes(keyRequestID))))
	for _, optional := range []struct {
		name  string
		value []byte
	}{
		{"encoding", resp.Header.ContentEncoding()},
		{"cache_status", resp.Header.PeekBytes(keyCacheStatus)},
		{"trace_id", loggedTrace(req.PeekBytes(keyTraceParent))},
		{"referer", req.Referer()},
		{"user_agent", req.UserAgent()},
	} {
		if len(optional.value) > 0 {
			attrs = append(attrs, slog.String(optional.name, string(optional.value)))
		}
	}
	s.access.LogAttrs(s.base, slog.LevelInfo, "request", attrs...)
}

// loggedTrace is the trace-id of a traceparent, nil if that is none.
func loggedTrace(parent []byte) []byte {
	if !validTraceParent(parent) {
		return nil
	}
	return traceID(parent)
}
