package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"vitrine/cache"
	"vitrine/proxy/measure"
	"vitrine/upstream/shape"
)

// A Source gives the current document of a resource, prepared by [Prepare]. A cache.Reader is one.
//
// It is asked by every GET and HEAD, concurrently; a hit must neither lock nor allocate. When nothing can be served,
// its error says why by the sentinels of upstream, and may hold a *cache.RetryError; the status may be filled then.
type Source interface {
	Get(ctx context.Context) (cache.Answer[*Prepared], error)
}

// Options are what a [Server] is made of.
type Options struct {
	// Sources has one source for each of shape.Resources.
	Sources map[shape.Resource]Source

	// MaxAge is how much longer a browser or CDN may keep an answer without asking; never past its freshness here.
	// Zero means that it asks every time.
	MaxAge time.Duration
	// StaleWhileRevalidate is what Cache-Control offers of it, within MaxAge's bounds. Zero means nothing.
	StaleWhileRevalidate time.Duration
	// StaleIfError is for how long a browser or CDN may serve a kept answer while vitrine fails. Zero means not at all.
	StaleIfError time.Duration

	// CORSOrigins are the origins whose pages may read answers: "*" alone, or a list such as https://example.org.
	// Empty means none.
	CORSOrigins []string

	// Logger gets what goes wrong. Nil means slog.Default().
	Logger *slog.Logger
	// Meter counts every answer. Nil means that nothing is counted.
	Meter *measure.Meter

	// MaxTargetBytes bounds a request's target (414 beyond). Zero means 4 KiB, as much as the CMS's own server takes.
	MaxTargetBytes int
	// MaxHeaderBytes bounds a request's fields together (431 beyond). Zero means 12 KiB. Each connection that is
	// served at a time has a buffer for both; a request that does not fit into it is 431, whichever part is too long.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request's body, which nobody looks at (413 beyond). Zero means 64 KiB.
	MaxBodyBytes int
	// MaxConnections bounds the connections served at a time. Zero means 262,144.
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
		if o.Sources[r] == nil {
			return fmt.Errorf("no source for %s", r)
		}
	}
	if len(o.Sources) != len(shape.Resources()) {
		return fmt.Errorf("want a source for each of %v, got %d", shape.Resources(), len(o.Sources))
	}
	for _, d := range []time.Duration{o.MaxAge, o.StaleWhileRevalidate, o.StaleIfError, o.ReadTimeout, o.WriteTimeout, o.IdleTimeout} {
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
