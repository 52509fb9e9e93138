package upstream

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	spancodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"vitrine/upstream/shape"
)

// Trace is the trace context of the request that a fetch is made for (W3C Trace Context, sections 3.2 and 3.3), as it
// came. Without a [Options.Tracer] it is passed on unchanged, so that in a trace the CMS's span is a child of the
// visitor's; with one it is that of the fetch's own span.
type Trace struct {
	// Parent is a valid traceparent.
	Parent string
	// State is the tracestate that came with it, lists joined; empty for none.
	State string
}

type traceKey struct{}

// WithTrace returns a context whose fetches tell an HTTP upstream of the trace. Nothing is told without a Parent.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// describeTrace sets the headers by which the trace goes on.
func describeTrace(ctx context.Context, h http.Header) {
	t, ok := ctx.Value(traceKey{}).(Trace)
	if !ok || t.Parent == "" {
		return
	}
	h.Set("Traceparent", t.Parent)
	if t.State != "" {
		h.Set("Tracestate", t.State)
	}
}

// scope is who makes the spans.
const scope = "vitrine/upstream"

// startFetch begins the span of a fetch, of which the CMS is told from then on.
func (c *Client) startFetch(ctx context.Context, r shape.Resource) (context.Context, trace.Span) {
	ctx, span := c.tracer.Start(ctx, "fetch "+string(r), trace.WithAttributes(attribute.String("vitrine.resource", string(r))))
	if !span.SpanContext().IsValid() { // no tracing: what came goes on as it is
		return ctx, span
	}
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return WithTrace(ctx, Trace{Parent: header["traceparent"], State: header["tracestate"]}), span
}

// endFetch ends the span of a fetch. Of an error it has the kind alone: what a CMS says in its errors is not known.
func endFetch(span trace.Span, result Result, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int("vitrine.attempts", result.Attempts), attribute.Int("vitrine.pages", result.Pages),
			attribute.Int("vitrine.bytes", result.Bytes), attribute.Bool("vitrine.not_modified", result.NotModified),
		)
		endStatus(span, result.Status, err)
	}
	span.End()
}

func endStatus(span trace.Span, status int, err error) {
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err != nil {
		span.SetAttributes(attribute.String("error.type", Code(err)))
		span.SetStatus(spancodes.Error, Code(err))
	}
}

// startStep begins the span of a part of what ctx's span is about.
func startStep(ctx context.Context, name string, r shape.Resource) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(attribute.String("vitrine.resource", string(r))))
}

// page asks for one answer, its retries included, within a span.
func (w *walk) page(ctx context.Context, want request, held Validators) (answer, error) {
	ctx, span := startStep(ctx, "page", want.resource)
	defer span.End()
	got, err := w.ask.exchange(ctx, want, held)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int("vitrine.page", want.page), attribute.Int("vitrine.attempts", got.attempts), attribute.Int("vitrine.bytes", len(got.body)),
		)
		if want.part != "" {
			span.SetAttributes(attribute.String("vitrine.part", want.part))
		}
		endStatus(span, got.status, err)
	}
	return got, err
}

// normalize is shape.Normalize within a span.
func normalize(ctx context.Context, r shape.Resource, body []byte) (shape.Document, error) {
	_, span := startStep(ctx, "normalize", r)
	defer span.End()
	document, err := shape.Normalize(r, body)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("vitrine.items", document.Items), attribute.Int("vitrine.repairs", document.Repairs.Total()))
		if err != nil {
			endStatus(span, 0, ErrAnswer)
		}
	}
	return document, err
}
