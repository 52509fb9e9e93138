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
	// Checks request each resource as a visitor would: nil, or why there is no 200. They run concurrently,
	// under a context that ends with ReadyTimeout, and must end with it. Empty means that the
	// process is ready while it is not draining.
	Checks map[shape.Resource]func(context.Context) error
	// Status has the part of the status that never changes.
	Status Status
	// Document returns the body of the cached copy of a resource, nil when there is none. Required.
	Document func(shape.Resource) []byte
	// Meter has the numbers. Required.
	Meter *metrics.Meter
	// Runbook is docs/operations.md.
	Runbook string
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
