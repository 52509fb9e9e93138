package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracing exports spans. A nil tracing makes none.
type tracing struct {
	provider *sdktrace.TracerProvider
}

// openTracing exports over OTLP if OpenTelemetry's own variables name an endpoint; otherwise it is
// nil. The sampler, sizes and times are read by the SDK.
func openTracing(ctx context.Context, log *slog.Logger) *tracing {
	if !tracingWanted(ctx, log) {
		return nil
	}
	otel.SetErrorHandler(&traceErrors{log: log})
	otel.SetLogger(logr.FromSlogHandler(misread{log}))
	info, _ := debug.ReadBuildInfo()
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "vitrine"), attribute.String("service.version", versionOf(version, info))),
		resource.WithFromEnv(), // overrides the above
	)
	if err != nil {
		// The error repeats the value, which may hold a secret.
		log.WarnContext(ctx, "ignoring part of OTEL_RESOURCE_ATTRIBUTES")
	}
	to, err := newCollector()
	if err != nil {
		log.WarnContext(ctx, "no traces", "error", err)
		return nil
	}
	return &tracing{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(otlptrace.NewUnstarted(to)), sdktrace.WithResource(about),
	)}
}

// tracingWanted reports what the standard's variables ask for.
func tracingWanted(ctx context.Context, log *slog.Logger) bool {
	exporter := strings.TrimSpace(os.Getenv("OTEL_TRACES_EXPORTER"))
	switch {
	case otelVariable("ENDPOINT") == "", exporter == "none",
		strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true"):
		return false
	case exporter != "" && exporter != "otlp":
		log.WarnContext(ctx, "no traces: OTEL_TRACES_EXPORTER must be otlp or none", "found", exporter)
		return false
	}
	if protocol := otelVariable("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		log.WarnContext(ctx, "no traces: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf", "found", protocol)
		return false
	}
	return true
}

// tracer makes the spans of a package, or is nil.
func (t *tracing) tracer(name string) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(name)
}

// close exports what was not exported yet, until then. An unreachable collector does not make the
// stop a failure.
func (t *tracing) close(ctx context.Context, log *slog.Logger, until time.Time) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.WarnContext(ctx, "the last traces were not exported", "error", bareURL(err))
	}
}

// bareURL leaves out of an error the URL, which may hold credentials.
func bareURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// traceErrorsEvery is how often failed exports are logged.
const traceErrorsEvery = time.Minute

// traceErrors logs failed exports, counted rather than repeated.
type traceErrors struct {
	log *slog.Logger

	mu       sync.Mutex // guards the fields below
	logged   time.Time
	unlogged int
}

// Handle implements otel.ErrorHandler.
func (e *traceErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); e.logged.IsZero() || now.Sub(e.logged) >= traceErrorsEvery {
		e.log.Warn("traces cannot be exported", "error", bareURL(err), "since_last", e.unlogged)
		e.logged, e.unlogged = now, 0
		return
	}
	e.unlogged++
}

// misread logs which of the standard's variables the SDK could not read, without the value, which
// may hold a secret.
type misread struct{ log *slog.Logger }

// Enabled implements slog.Handler.
func (misread) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (m misread) Handle(ctx context.Context, r slog.Record) error {
	m.log.WarnContext(ctx, "ignoring invalid OpenTelemetry variable", "while", r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (m misread) WithAttrs([]slog.Attr) slog.Handler { return m }

// WithGroup implements slog.Handler.
func (m misread) WithGroup(string) slog.Handler { return m }
