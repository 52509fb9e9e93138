package proxy

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"go.opentelemetry.io/otel/trace"

	"vitrine/proxy/metrics"
	"vitrine/proxy/negotiate"
)

// Server answers the public routes. Make it with [New].
type Server struct {
	app       *fiber.App
	log       *slog.Logger
	resources [len(routes)]resource
	terms     *terms
	ids       *requestIDs
	access    *slog.Logger   // nil for no access log
	meter     *metrics.Meter // nil without counting
	tracer    trace.Tracer   // nil without tracing

	// base is the context for cache lookups. A fasthttp request context must not outlive its
	// handler. It ends when Shutdown runs out of time.
	base context.Context
	stop context.CancelFunc

	maxTarget, maxHeader int // bytes

	draining atomic.Bool

	maxConns int64
	open     atomic.Int64 // connections
	noticed  atomic.Int64 // when too many were last logged, in Unix nanoseconds

	mu        sync.Mutex // guards the two below
	listeners []net.Listener
	closed    bool // Shutdown was called
}

// A resource is the server's data of a resource besides its [route].
type resource struct {
	documents Documents
	moments
	description [negotiate.MaxIndent + 1][]byte // the answer to OPTIONS by indentation
}
