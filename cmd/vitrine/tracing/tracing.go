// Package tracing exports spans over OTLP/HTTP, as OpenTelemetry's own variables say.
package tracing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"vitrine/upstream/exchange"
)

// Exporter exports spans. A nil one makes none.
type Exporter struct {
	provider *sdktrace.TracerProvider
}

// Open exports over OTLP if OpenTelemetry's own variables name an endpoint; otherwise it is
// nil. The sampler, sizes and times are read by the SDK.
func Open(ctx context.Context, version string, log *slog.Logger) *Exporter {
	to, err := newCollector()
	if err != nil {
		log.WarnContext(ctx, "no traces", "error", err)
	}
	if to == nil {
		return nil
	}
	otel.SetErrorHandler(&traceErrors{log: log, sometimes: rate.Sometimes{Interval: traceErrorsEvery}})
	otel.SetLogger(logr.FromSlogHandler(misread{slog.DiscardHandler, log}))
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "vitrine"), attribute.String("service.version", version)),
		resource.WithFromEnv(), // overrides the above
	)
	if err != nil {
		// The error repeats the value, which may hold a secret.
		log.WarnContext(ctx, "ignoring part of OTEL_RESOURCE_ATTRIBUTES")
	}
	return &Exporter{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(otlptrace.NewUnstarted(to)), sdktrace.WithResource(about),
	)}
}

// Tracer makes the spans of a package, or is nil.
func (t *Exporter) Tracer(name string) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(name)
}

// Close exports what was not exported yet, until then. An unreachable collector does not make the
// stop a failure.
func (t *Exporter) Close(ctx context.Context, log *slog.Logger, until time.Time) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.WarnContext(ctx, "the last traces were not exported", "error", exchange.WithoutURL(err))
	}
}

// exportTimeout is the standard's default for one export.
const exportTimeout = 10 * time.Second

// traceErrorsEvery is how often failed exports are logged.
const traceErrorsEvery = time.Minute

// traceErrors logs failed exports, counted rather than repeated.
type traceErrors struct {
	log       *slog.Logger
	sometimes rate.Sometimes
	failed    atomic.Int64 // since one was logged
}

// Handle implements otel.ErrorHandler.
func (e *traceErrors) Handle(err error) {
	e.failed.Add(1)
	e.sometimes.Do(func() {
		e.log.Warn("traces cannot be exported", "error", exchange.WithoutURL(err), "since_last", e.failed.Swap(0)-1)
	})
}

// misread logs which of the standard's variables the SDK could not read, without the value, which
// may hold a secret.
type misread struct {
	slog.Handler // discards
	log          *slog.Logger
}

// Enabled implements slog.Handler.
func (misread) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (m misread) Handle(ctx context.Context, r slog.Record) error {
	m.log.WarnContext(ctx, "ignoring invalid OpenTelemetry variable", "while", r.Message)
	return nil
}

// collector sends spans over OTLP/HTTP. It implements otlptrace.Client; OpenTelemetry's own one for
// HTTP links all of gRPC. https://opentelemetry.io/docs/specs/otel/protocol/exporter/
type collector struct {
	http    http.Client
	url     string
	headers http.Header
}

// otelVariable is OTEL_EXPORTER_OTLP_TRACES_name, or otherwise OTEL_EXPORTER_OTLP_name.
func otelVariable(name string) string {
	return cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name)), strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
}

// newCollector reads OpenTelemetry's variables. It is nil if they want no traces. Its errors do not
// repeat what may contain credentials.
func newCollector() (*collector, error) {
	endpoint, exporter := otelVariable("ENDPOINT"), cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp")
	if endpoint == "" || exporter == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // see above
	}
	if exporter != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER must be otlp or none, not %s", exporter)
	}
	if protocol := cmp.Or(otelVariable("PROTOCOL"), "http/protobuf"); protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, not %s", protocol)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL")
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		u = u.JoinPath("v1", "traces")
	}
	headers := http.Header{"Content-Type": {"application/x-protobuf"}}
	for header := range strings.SplitSeq(otelVariable("HEADERS"), ",") {
		name, value, ok := strings.Cut(header, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(header) == "":
		case !ok || err != nil:
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE")
		default:
			headers.Set(strings.TrimSpace(name), value)
		}
	}
	return &collector{url: u.String(), headers: headers, http: http.Client{
		Timeout:   exportTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
		// The headers may contain credentials for the collector only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans once; spans that a collector refuses are lost.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// An ExportTraceServiceRequest has the same fields.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.headers.Clone()
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// A body that is read to its end leaves the connection for the next export.
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered with status %d", response.StatusCode)
	}
	return nil
}
