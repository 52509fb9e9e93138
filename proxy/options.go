package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
	// CDNTold says that a cache in front is notified of changes and purges: CDNMaxAge may then exceed an
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

	// Logger receives failures. Required.
	Logger *slog.Logger
	// Meter counts every answer. Required.
	Meter *metrics.Meter
	// AccessLog receives a line for every request, at level info. Nil means none.
	AccessLog *slog.Logger

	// TrustedProxies are the networks (10.0.0.0/8) and addresses of the proxies in front; the word
	// unix means all connections over a Unix socket. Only they are trusted to name their client,
	// for the access log, and the trace of a request. Empty means none.
	TrustedProxies []string
	// ClientHeader is the header in which they name their client. Empty means none.
	ClientHeader string

	Limits
}

// Limits are those of requests and connections. All are required.
type Limits struct {
	// MaxTargetBytes bounds a request's target (414 beyond).
	MaxTargetBytes int
	// MaxHeaderBytes bounds a request's fields together (431 beyond). A request has one buffer for
	// both; a request that does not fit is 431, whichever part is too long.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request's body, which is ignored (413 beyond).
	MaxBodyBytes int
	// MaxConnections bounds the concurrent connections (503 beyond).
	MaxConnections int
	// ReadTimeout bounds the time to receive a request (408 beyond).
	ReadTimeout time.Duration
	// WriteTimeout bounds the time to send an answer.
	WriteTimeout time.Duration
	// IdleTimeout is how long an idle connection stays open.
	IdleTimeout time.Duration
}

func (o *Options) validate() error {
	for _, r := range shape.Resources() {
		if o.Documents[r] == nil {
			return fmt.Errorf("no documents for %s", r)
		}
	}
	if d := min(o.HSTS, o.MaxAge, o.StaleWhileRevalidate, o.StaleIfError, o.CDNMaxAge, o.CDNStaleWhileRevalidate); d < 0 {
		return fmt.Errorf("a duration is negative: %v", d)
	}
	if o.Meter == nil || o.Logger == nil {
		return errors.New("no meter or logger")
	}
	if min(o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxBodyBytes, o.MaxConnections) <= 0 || min(o.ReadTimeout, o.WriteTimeout, o.IdleTimeout) <= 0 {
		return errors.New("a limit is missing")
	}
	return nil
}
