package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

// Documents returns the current document of a resource, prepared by [represent.Prepare]. A
// cache.Reader implements it.
//
// Every GET and HEAD calls it, concurrently; a hit must neither lock nor allocate. Ctx must not be
// kept beyond the call, since it is reused; it is a [cache.Lender] of its values. If nothing can be
// served, the error wraps one of upstream's sentinels and perhaps a *cache.RetryError; the status
// may be filled then.
type Documents interface {
	Get(ctx context.Context) (cache.Answer[*represent.Document], error)
}

// Options are the settings of a [Server].
type Options struct {
	// Documents has an entry for each of shape.Resources.
	Documents map[shape.Resource]Documents

	// MaxAge is how long a browser or CDN can keep an answer without revalidating, within its
	// freshness here. Zero means not at all.
	MaxAge time.Duration
	// StaleWhileRevalidate is how long it can be served while it is revalidated, also within its
	// freshness here, and only if MaxAge is at least a second. Zero means not at all.
	StaleWhileRevalidate time.Duration
	// CDNMaxAge and CDNStaleWhileRevalidate are the same for CDNs that support CDN-Cache-Control,
	// without the condition, since such a CDN can be purged. Zero means zero, not the value above.
	CDNMaxAge, CDNStaleWhileRevalidate time.Duration
	// CDNTold says that a cache in front is told of changes and purges: CDNMaxAge may then exceed an
	// answer's freshness here.
	CDNTold bool
	// TagHeaders are further fields, Cache-Tag or Surrogate-Key, for what Cache-Groups says. Empty
	// means none.
	TagHeaders []string
	// StaleIfError is how long past its freshness here a browser or CDN can serve a stored answer
	// while vitrine fails. Zero means not at all.
	StaleIfError time.Duration
	// HSTS is the max-age of Strict-Transport-Security, sent over TLS. Zero means not sent.
	HSTS time.Duration

	// CORSOrigins are the origins whose pages can read answers: "*" alone, or a list such as
	// https://example.org. Empty means none.
	CORSOrigins []string

	// Logger receives failures. Nil means slog.Default().
	Logger *slog.Logger
	// Meter counts every answer. Required.
	Meter *metrics.Meter
	// Tracer makes a span for every request that its sampler wants. Nil makes none, at no cost.
	Tracer trace.Tracer
	// AccessLog receives a line for every request, at level info. Nil means none.
	AccessLog *slog.Logger

	// TrustedProxies are the networks (10.0.0.0/8) and addresses of the proxies in front; the word
	// unix means all connections over a Unix socket. Only they are trusted to name their client,
	// for the access log, and the trace of a request. Empty means none.
	TrustedProxies []string
	// ClientHeader is the header in which they name their client. Empty means X-Forwarded-For.
	ClientHeader string

	// MaxTargetBytes bounds a request's target (414 beyond). Zero means 4 KiB, the limit of the
	// CMS's own server.
	MaxTargetBytes int
	// MaxHeaderBytes bounds a request's fields together (431 beyond). Zero means 12 KiB. A request
	// has one buffer for both; a request that does not fit is 431, whichever part is too long.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request's body, which is ignored (413 beyond). Zero means 64 KiB.
	MaxBodyBytes int
	// MaxConnections bounds the concurrent connections (503 beyond). Zero means 262,144.
	MaxConnections int
	// ReadTimeout bounds the time to receive a request (408 beyond). Zero means 10 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time to send an answer. Zero means 60 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long an idle connection stays open. Zero means 2 minutes.
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
	if o.Meter == nil {
		return errors.New("no meter")
	}
	if min(o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxBodyBytes, o.MaxConnections) < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

func (o *Options) setDefaults() {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.ClientHeader = cmp.Or(o.ClientHeader, "X-Forwarded-For")
	o.MaxTargetBytes = cmp.Or(o.MaxTargetBytes, 4<<10)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 12<<10)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 64<<10)
	o.MaxConnections = cmp.Or(o.MaxConnections, 256<<10)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
}
