package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
)

// Server answers the public routes. Make it with [New].
type Server struct {
	options   Options
	app       *fiber.App
	terms     *terms
	documents [len(routes)]Documents
	moments   [len(routes)]moments

	// base is the context for cache lookups. A fasthttp request context must not outlive its
	// handler. It ends when Shutdown runs out of time.
	base context.Context
	stop context.CancelFunc

	draining atomic.Bool
	open     atomic.Int64 // connections
	noticed  atomic.Int64 // when too many were last logged, in Unix nanoseconds

	mu        sync.Mutex // guards the two below
	listeners []net.Listener
	closed    bool // Shutdown was called
}
