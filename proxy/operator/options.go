package operator

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// Options are the settings of a [Server].
type Options struct {
	// Checks report by name whether the process is ready: nil, or why not. They run concurrently,
	// under a context that ends with ReadyTimeout, and must end with it. Empty means that the
	// process is ready while it is not draining.
	Checks map[string]func(context.Context) error
	// Status returns the status, without the states of resources and the numbers of Meter. It must
	// not block. Required.
	Status func() Status
	// Document returns the body of the copy held of a resource, nil when there is none. Required.
	Document func(shape.Resource) []byte
	// Meter has the numbers. Required.
	Meter *metrics.Meter
	// OpenAPI is the body of /openapi.json.
	OpenAPI []byte
	// Profiles enables Go's profiles at /debug/pprof/.
	Profiles bool
	// Hook serves the webhook and does its own authentication. Nil means that there is no such
	// path.
	Hook http.Handler
	// ReadyTimeout bounds /readyz. Zero means 2 s.
	ReadyTimeout time.Duration
	// Token is required for everything but the health checks and the webhook. Empty requires none,
	// which is for an address that nobody else reaches.
	Token string
	// Listen is the configured address, whose host a request may name, and Hosts are further ones.
	// A request for a host that is neither of these, nor loopback, nor the connection's own address
	// is refused. Both may be empty.
	Listen string
	Hosts  []string
	// Logger receives failures. Nil means slog.Default().
	Logger *slog.Logger
}
