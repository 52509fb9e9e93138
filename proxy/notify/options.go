package notify

import (
	"context"
	"log/slog"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// Claims decide who tells a target, for all processes. A cache.Store implements them.
type Claims interface {
	Claim(ctx context.Context, c cache.Claim, lasting time.Duration) (cache.Claim, error)
}

// Options are the settings of a [Notifier].
type Options struct {
	// Targets are complete: see package config.
	Targets []source.Target
	// Bound is how long after a change it is told. Required.
	Bound time.Duration
	// Pause is the least time between two notices of a resource to one target; 0 is a second.
	Pause time.Duration
	// Count receives each outcome, told or failed. Required.
	Count func(target, outcome string)
	// Compare is what changed between two documents of a resource. Required.
	Compare func(r shape.Resource, before, after *cache.Document) shape.Changes
	// Logger receives a target's failures and that it can be told again. Required.
	Logger *slog.Logger
}
