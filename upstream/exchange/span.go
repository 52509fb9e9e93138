package exchange

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// StartSpan begins the span of a step, under ctx's span.
func StartSpan(ctx context.Context, name, resource string) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("vitrine/upstream").Start(ctx, name,
		trace.WithAttributes(attribute.String("vitrine.resource", resource)))
}

func endPage(span trace.Span, want Request, got Answer, err error) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int("vitrine.page", want.Page), attribute.Int("vitrine.attempts", got.Attempts), attribute.Int("vitrine.bytes", len(got.Body)),
		)
		if want.Part != "" {
			span.SetAttributes(attribute.String("vitrine.part", want.Part))
		}
		SetStatus(span, got.Status, err)
	}
	span.End()
}

// SetStatus records the outcome of a span's step. Of an error it records the code only, never text
// of the CMS.
func SetStatus(span trace.Span, status int, err error) {
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err != nil {
		span.SetAttributes(attribute.String("error.type", Code(err)))
		span.SetStatus(codes.Error, Code(err))
	}
}
