package proxy

import (
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/metrics"
)

// observed is what is counted of a request beside its status and its time.
type observed struct {
	target    metrics.Target
	cache     metrics.Cache
	collapsed bool
	done      bool // the answer has been made

	span trace.Span // nil where nothing is traced
}

// document notes how the document was come by.
func (o *observed) document(s *cache.Status, err error) {
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

// observe counts an answer that has been made.
func (s *Server) observe(ctx *fasthttp.RequestCtx, o observed) {
	if s.meter == nil {
		return
	}
	var took time.Duration
	if began := ctx.Time(); !began.IsZero() {
		took = time.Since(began)
	}
	s.meter.Observe(metrics.Answer{
		Target: o.target, Cache: o.cache, Collapsed: o.collapsed, Code: ctx.Response.StatusCode(), Took: took,
	})
}
