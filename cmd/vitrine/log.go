package main

import (
	"context"
	"io"
	"log/slog"

	"vitrine/config"
)

// newLogger makes the program's log. The configuration has checked level and
// format; the level may be set to another later.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(levelOf(c))
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// accessLog is where each request is logged: with everything else, but whatever
// the level. It is nil where that is off.
func accessLog(log *slog.Logger, c config.Log) *slog.Logger {
	if c.Access != "on" {
		return nil
	}
	return slog.New(everyLevel{log.Handler()})
}

// everyLevel is a handler that takes messages of all levels.
type everyLevel struct{ slog.Handler }

// Enabled says so.
func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }
