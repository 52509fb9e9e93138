package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// startCall begins the span of a call to Redis within that of ctx. What nobody's request has caused has none.
func startCall(ctx context.Context, operation, key string, o ...trace.SpanStartOption) trace.Span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return nil
	}
	o = append(o, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", operation), attribute.String("vitrine.resource", key)))
	_, span := parent.TracerProvider().Tracer("vitrine/cache").Start(ctx, "redis "+operation, o...)
	return span
}

// endCall ends it. What exactly went wrong is told by the log: an error may repeat what Redis holds.
func endCall(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// traceLook makes the span of a look at Redis that began then; other requests may have waited for the same one.
func traceLook(ctx context.Context, key string, began time.Time, detail string) {
	if detail == DetailRedis {
		endCall(startCall(ctx, "look", key, trace.WithTimestamp(began)), nil)
	}
}

// operation is what a script does, in a word.
func operation(script *redis.Script) string {
	switch script {
	case lookScript:
		return "look"
	case acquireScript:
		return "acquire"
	case fillScript:
		return "fill"
	case releaseScript:
		return "release"
	case extendScript:
		return "extend"
	case claimScript:
		return "claim"
	}
	return "script"
}
