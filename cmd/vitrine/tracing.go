package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
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
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
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
	otel.SetLogger(logr.FromSlogHandler(misread{slog.DiscardHandler, log}))
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
	http    *http.Client
	url     string
	headers http.Header
	gzip    bool
}

// otelVariable is OTEL_EXPORTER_OTLP_TRACES_name, or otherwise OTEL_EXPORTER_OTLP_name.
func otelVariable(name string) string {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if value := strings.TrimSpace(os.Getenv(prefix + name)); value != "" {
			return value
		}
	}
	return ""
}

// newCollector reads OpenTelemetry's variables. Its errors do not repeat them, since some contain
// credentials.
func newCollector() (*collector, error) {
	c := &collector{headers: http.Header{"Content-Type": {"application/x-protobuf"}}}
	u, err := url.Parse(otelVariable("ENDPOINT"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL")
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		u = u.JoinPath("v1", "traces")
	}
	c.url = u.String()
	for header := range strings.SplitSeq(otelVariable("HEADERS"), ",") {
		name, value, ok := strings.Cut(header, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(header) == "":
		case !ok || err != nil:
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE")
		default:
			c.headers.Set(strings.TrimSpace(name), value)
		}
	}
	timeout := 10_000
	if text := otelVariable("TIMEOUT"); text != "" {
		if timeout, err = strconv.Atoi(text); err != nil || timeout <= 0 {
			return nil, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds")
		}
	}
	switch otelVariable("COMPRESSION") {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.headers.Set("Content-Encoding", "gzip")
	default:
		return nil, errors.New("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none")
	}
	secure, err := collectorTLS()
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{
		Timeout:   time.Duration(timeout) * time.Millisecond,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure},
		// The headers may contain credentials for the collector only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// collectorTLS uses the configured certificates, and is nil without any.
func collectorTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := otelVariable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE contains no certificate")
		}
	}
	if file := otelVariable("CLIENT_CERTIFICATE"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, otelVariable("CLIENT_KEY"))
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
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
	if c.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		body = packed.Bytes()
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
