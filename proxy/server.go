package proxy

import (
	"context"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/swap"
	"vitrine/upstream/shape"
)

// Server answers the public routes under one configuration. Make it with [New]; [Connections] bring
// it requests.
type Server struct {
	options  Options
	app      *fiber.App
	route    fasthttp.RequestHandler // of app
	terms    *terms
	routes   map[shape.Resource]*route
	unrouted *metrics.Answers // to requests without a route
	swap.UnderWay

	// base is the context for cache lookups. A fasthttp request context must not outlive its
	// handler. It ends when Drain runs out of time.
	base context.Context
	stop context.CancelFunc
}

// Drain returns when no request is under way, or with ctx's error. It is for a server that
// [Connections.Swap] has replaced.
func (s *Server) Drain(ctx context.Context) error {
	defer s.stop()
	return s.UnderWay.Drain(ctx)
}
