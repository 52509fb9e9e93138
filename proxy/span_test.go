package proxy

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestARequestIsASpanUnderTheVisitors(t *testing.T) {
	seen := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen))
	handler := quietServer(t, Options{Tracer: provider.Tracer("test")}).app.Server().Handler
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, test := range []struct{ target, flags, name string }{
		{"/gvapp/?x=secret", "01", "GET /gvapp/"},
		{"/some/path", "01", "request"},
		{"/gvapp/", "00", ""},
	} {
		handler(hotContext(test.target, []string{"Traceparent", "00-" + id + "-" + parent + "-" + test.flags}))
		spans := seen.Ended()
		seen.Reset()
		if test.name == "" {
			if len(spans) > 0 {
				t.Errorf("%s: not sampled, and %d spans", test.target, len(spans))
			}
			continue
		}
		if len(spans) != 1 || spans[0].Name() != test.name || spans[0].Parent().SpanID().String() != parent || spans[0].SpanContext().TraceID().String() != id {
			t.Errorf("%s: %v", test.target, spans)
		}
	}
}

// BenchmarkTracing is a hit with tracing off, and on with a sampler that says no, and one that says yes.
//
//	go test -run '^$' -bench BenchmarkTracing ./proxy
func BenchmarkTracing(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"off": nil, "never": sdktrace.NeverSample(), "always": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			o := Options{}
			if sampler != nil {
				o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)).Tracer("benchmark")
			}
			benchmark(b, quietServer(b, o).app.Server().Handler, hotContext("/gvapp/", nil))
		})
	}
}
