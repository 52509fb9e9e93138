package proxy

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"

	"vitrine/proxy/operator/metrics"
)

// observe reads the header of a request, has it answered, and records the outcome.
func (s *Server) observe(c *fiber.Ctx) error {
	r := s.newRequest(c.Context())
	r.read = true
	c.Context().SetUserValue(requestKey{}, r)
	err := c.Next()
	if err != nil {
		err = c.App().ErrorHandler(c, err)
	}
	if r.closes || r.malformed {
		c.Context().SetConnectionClose()
	}
	clientOf(r.ctx).leave()
	s.finish(r, r.ctx.Time())
	return err
}

// finish ends a request whose answer is ready: it is counted and logged, and its writing
// gets a deadline. It began when all of it had arrived; the zero time means an incomplete request.
func (s *Server) finish(r *request, began time.Time) {
	now, took := time.Now(), time.Duration(0)
	if !began.IsZero() {
		took = now.Sub(began)
	}
	answers := s.unrouted
	if r.route != nil {
		answers = r.route.answers
	}
	answers.Observe(metrics.Answer{Cache: r.cache, Collapsed: r.collapsed, Code: r.ctx.Response.StatusCode(), Took: took})
	if s.options.AccessLog != nil {
		s.logAccess(r, took)
	}
	clientOf(r.ctx).limitWrites(now)
	r.release()
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
	for _, optional := range [...]struct{ name, value string }{
		{"encoding", r.encoding.String()},
		{"cache_status", string(resp.Header.Peek(cacheStatus))},
		{"trace_id", cmp.Or(r.trace, r.trusted()).ID()},
		{"referer", string(req.Referer())},
		{"user_agent", string(req.UserAgent())},
	} {
		if optional.value != "" {
			attrs = append(attrs, slog.String(optional.name, optional.value))
		}
	}
	s.options.AccessLog.LogAttrs(s.base, slog.LevelInfo, "request", attrs...)
}
