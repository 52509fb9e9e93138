package service

import (
	"context"
	"io"
	"log/slog"

	"vitrine/config"
	"vitrine/proxy/accesslog"
)

// newLogger makes the log. Level and format have been checked.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	options := new(slog.HandlerOptions)
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil {
		options.Level = level
	}
	if c.Format == "json" {
		options.ReplaceAttr = secondsInJSON
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// secondsInJSON makes a duration a number with the unit in its name: slog's JSON has nanoseconds.
func secondsInJSON(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// accessLog is the log of requests, at any level. Its zero value is none.
type accessLog struct {
	*slog.Logger
	file *accesslog.File // nil if it goes elsewhere
}

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
