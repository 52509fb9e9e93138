package proxy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/processors"
)

// Server answers the public routes. Make it with [New].
type Server struct {
	options  Options
	app      *fiber.App
	terms    *terms
	routes   []*route
	unrouted *metrics.Answers // to requests without a route
	large    processors.Half  // for large requests

	// base is the context for cache lookups. A fasthttp request context must not outlive its
	// handler. It ends when Shutdown runs out of time.
	base context.Context
	stop context.CancelFunc

	accepting context.Context // until Shutdown
	close     context.CancelFunc
	draining  atomic.Bool
	serving   atomic.Int64   // listeners, one of which may be giving out its last connection
	open      atomic.Int64   // connections
	notice    rate.Sometimes // logs that there are too many
}

// SetDraining makes every answer from now on the last one on its connection.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown stops accepting, and returns when no connection is left, or with ctx's error. Answers
// close their connections; whoever has accepted these has to close the idle ones.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	s.SetDraining()
	s.close()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for s.serving.Load() > 0 || s.open.Load() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("proxy: shut down: %w", ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}
