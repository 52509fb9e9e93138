package service

import (
	"context"
	"log/slog"
)

// whilePresent is a handler for the log of a service's store. While two services run, both stores
// tell the same: below warnings, only that of the present one is logged.
type whilePresent struct {
	slog.Handler
	isPresent func() bool
}

// Enabled implements slog.Handler.
func (h whilePresent) Enabled(ctx context.Context, level slog.Level) bool {
	return (level >= slog.LevelWarn || h.isPresent()) && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h whilePresent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return whilePresent{h.Handler.WithAttrs(attrs), h.isPresent}
}
