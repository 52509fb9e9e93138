package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"vitrine/proxy/processors"
)

// Server answers the public routes. Make it with [New].
type Server struct {
	options   Options
	app       *fiber.App
	terms     *terms
	documents [len(routes)]Documents
	moments   [len(routes)]moments
	large     processors.Half // for large requests

	// base is the context for cache lookups. A fasthttp request context must not outlive its
	// handler. It ends when Shutdown runs out of time.
	base context.Context
	stop context.CancelFunc

	draining atomic.Bool
	open     atomic.Int64   // connections
	notice   rate.Sometimes // logs that there are too many
}

// SetDraining makes every answer from now on the last one on its connection.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown stops accepting, closes idle connections, and returns when the requests in flight have
// finished. If ctx ends first, its error is returned; the answers that are still made close their
// connections, but whoever has accepted these has to close the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	s.SetDraining()
	if err := s.app.ShutdownWithContext(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("proxy: shut down: %w", err)
	}
	return nil
}
