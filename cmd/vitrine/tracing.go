package main

import (
	"context"
	"errors"
	"fmt"
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
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracing exports spans. A nil tracing makes none.
type tracing struct {
	provider *sdktrace.TracerProvider
	shutdown func(until time.Time) error // the last export, after everything else has ended
}

// openTracing starts to export over OTLP if OpenTelemetry's own variables name an endpoint, and
// returns nil otherwise. The exporter and the SDK read the other variables themselves (headers,
// TLS, sampler, sizes and times).
func openTracing(ctx context.Context, log *slog.Logger) (*tracing, error) {
	if !tracingWanted(ctx, log) {
		return nil, nil //nolint:nilnil // nil is documented to make no spans
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
		// Its text repeats the value, which may be secret.
		log.WarnContext(ctx, "ignoring invalid parts of OTEL_RESOURCE_ATTRIBUTES")
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", bareURL(err))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &tracing{provider: provider, shutdown: func(until time.Time) error {
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		return provider.Shutdown(ctx)
	}}, nil
}

// tracingWanted reports whether the standard's variables ask for traces.
func tracingWanted(ctx context.Context, log *slog.Logger) bool {
	get := func(name string) string { return strings.TrimSpace(os.Getenv(name)) }
	if get("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return false
	}
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := get("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return false
	default:
		log.WarnContext(ctx, "no traces: OTEL_TRACES_EXPORTER must be otlp or none", "found", exporter)
		return false
	}
	protocol := get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = get("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
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

// close exports the remaining spans, until the deadline. An unreachable collector is not an error
// of the shutdown.
func (t *tracing) close(log *slog.Logger, until time.Time) {
	if t == nil {
		return
	}
	if err := t.shutdown(until); err != nil {
		log.Warn("the last traces were not exported", "error", bareURL(err))
	}
}

// bareURL removes the URL from an error, since it may contain credentials.
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

	mu     sync.Mutex // guards the fields below
	told   time.Time
	untold int
}

// Handle implements otel.ErrorHandler.
func (e *traceErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); e.told.IsZero() || now.Sub(e.told) >= traceErrorsEvery {
		e.log.Warn("traces cannot be exported", "error", bareURL(err), "since_last", e.untold)
		e.told, e.untold = now, 0
		return
	}
	e.untold++
}

// misread logs which of the standard's variables the SDK could not read, without the value: one of
// them has the exporter's credentials.
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
