package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

// Documents gives the current document of a resource, prepared by [represent.Prepare]. A cache.Reader does.
//
// It is asked by every GET and HEAD, concurrently; a hit must neither lock nor allocate. Ctx must not be kept beyond the
// call, since it is used again; it is a [cache.Lender] for who needs its values later. When nothing can be served, the
// error is one of upstream's sentinels, wrapped, and may hold a *cache.RetryError; the status may be filled then.
type Documents interface {
	Get(ctx context.Context) (cache.Answer[*represent.Document], error)
}

// Options are what a [Server] is made of.
type Options struct {
	// Documents has those of each of shape.Resources.
	Documents map[shape.Resource]Documents

	// MaxAge is how much longer a browser or CDN may keep an answer without asking; never past its freshness here.
	// Zero means that it asks every time.
	MaxAge time.Duration
	// StaleWhileRevalidate is for how much longer it may be given while it is revalidated, also never past its
	// freshness here, and only if MaxAge is at least a second. Zero means not at all.
	StaleWhileRevalidate time.Duration
	// CDNMaxAge and CDNStaleWhileRevalidate are the same for CDNs that know CDN-Cache-Control, but for the condition:
	// such a CDN can be purged. Zero means zero, not the value above.
	CDNMaxAge, CDNStaleWhileRevalidate time.Duration
	// StaleIfError is for how long past its freshness here a browser or CDN may give a kept answer while vitrine
	// fails. Zero means not at all.
	StaleIfError time.Duration
	// HSTS is for how long a browser uses TLS only, announced on connections that do. Zero means no announcement.
	HSTS time.Duration

	// CORSOrigins are the origins whose pages may read answers: "*" alone, or a list such as https://example.org.
	// Empty means none.
	CORSOrigins []string

	// Logger gets what goes wrong. Nil means slog.Default().
	Logger *slog.Logger
	// Meter counts every answer. Nil means that nothing is counted.
	Meter *metrics.Meter
	// Tracer makes a span for every request that its sampler wants. Nil makes none, at no cost.
	Tracer trace.Tracer
	// AccessLog gets a line for every request, at level info. Nil means none.
	AccessLog *slog.Logger

	// TrustedProxies are the networks (10.0.0.0/8) and addresses of the proxies in front; the word unix stands for
	// whoever connects over a Unix socket. They alone are believed who their client is, for the access log, and which
	// trace a request belongs to. Empty means that nobody is.
	TrustedProxies []string
	// ClientHeader is the field in which they name their client. Empty means X-Forwarded-For.
	ClientHeader string

	// MaxTargetBytes bounds a request's target (414 beyond). Zero means 4 KiB, as much as the CMS's own server takes.
	MaxTargetBytes int
	// MaxHeaderBytes bounds a request's fields together (431 beyond). Zero means 12 KiB. While a request is received it
	// has a buffer for both; one that does not fit into it is 431, whichever part is too long.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request's body, which is ignored (413 beyond). Zero means 64 KiB.
	MaxBodyBytes int
	// MaxConnections bounds the connections served at a time (503 beyond). Zero means 262,144.
	MaxConnections int
	// ReadTimeout bounds the time in which a request must arrive (408 beyond). Zero means 10 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time in which an answer must be taken. Zero means 60 s.
	WriteTimeout time.Duration
	// IdleTimeout is for how long a connection without a request stays open. Zero means 2 minutes.
	IdleTimeout time.Duration
}

func (o *Options) validate() error {
	for _, r := range shape.Resources() {
		if o.Documents[r] == nil {
			return fmt.Errorf("no documents for %s", r)
		}
	}
	if len(o.Documents) != len(shape.Resources()) {
		return fmt.Errorf("want documents for each of %v, got %d", shape.Resources(), len(o.Documents))
	}
	for _, d := range []time.Duration{
		o.ReadTimeout, o.WriteTimeout, o.IdleTimeout, o.HSTS,
		o.MaxAge, o.StaleWhileRevalidate, o.StaleIfError, o.CDNMaxAge, o.CDNStaleWhileRevalidate,
	} {
		if d < 0 {
			return fmt.Errorf("a duration is negative: %v", d)
		}
	}
	if min(o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxBodyBytes, o.MaxConnections) < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	setDefault(&o.ClientHeader, "X-Forwarded-For")
	setDefault(&o.MaxTargetBytes, 4<<10)
	setDefault(&o.MaxHeaderBytes, 12<<10)
	setDefault(&o.MaxBodyBytes, 64<<10)
	setDefault(&o.MaxConnections, 256<<10)
	setDefault(&o.ReadTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, time.Minute)
	setDefault(&o.IdleTimeout, 2*time.Minute)
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}
