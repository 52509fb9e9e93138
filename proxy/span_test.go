package proxy

import (
	"context"
	"sync/atomic"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"vitrine/cache"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

const (
	visitorTrace = "0af7651916cd43dd8448eb211c80319c"
	visitorSpan  = "b7ad6b7169203331"
	traceParent  = "Traceparent: 00-" + visitorTrace + "-" + visitorSpan + "-"
)

// TestARequestIsASpanUnderThatOfATrustedProxyOnly: nobody else can have spans made, kept from being
// made, or put into a trace of their own.
func TestARequestIsASpanUnderThatOfATrustedProxyOnly(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		seen := tracetest.NewSpanRecorder()
		never := sdktrace.ParentBased(sdktrace.NeverSample())
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen), sdktrace.WithSampler(never))
		o := Options{Tracer: provider.Tracer("test")}
		if trusted {
			o.TrustedProxies = []string{"127.0.0.1"}
		}
		r := newRig(t, o)
		for _, test := range []struct{ target, flags, name string }{
			{"/gvapp/?x=secret", "01", "GET /gvapp/"},
			{"/some/path", "01", "request"},
			{"/gvapp/", "00", ""},
		} {
			r.get(t, test.target, traceParent+test.flags)
			spans := seen.Ended()
			seen.Reset()
			if test.name == "" || !trusted {
				if len(spans) > 0 {
					t.Errorf("%s, flags %s, trusted %t: %d spans", test.target, test.flags, trusted, len(spans))
				}
				continue
			}
			if len(spans) != 1 || spans[0].Name() != test.name || spans[0].Parent().SpanID().String() != visitorSpan || spans[0].SpanContext().TraceID().String() != visitorTrace {
				t.Errorf("%s: %v", test.target, spans)
			}
		}
	}
}

// lent takes note of the trace that a fetch would belong to.
type lent struct {
	Documents
	trace atomic.Pointer[string]
}

func (l *lent) Get(ctx context.Context) (cache.Answer[*represent.Document], error) {
	found := ""
	defer func() { l.trace.Store(&found) }()
	if lender, ok := ctx.(cache.Lender); ok {
		ctx = lender.Lend()
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		found = sc.TraceID().String() + " " + sc.TraceState().String()
	}
	return l.Documents.Get(ctx)
}

func TestATraceGoesOnToTheFetchFromATrustedProxyOnly(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		o := Options{}
		if trusted {
			o.TrustedProxies = []string{"127.0.0.0/8"}
		}
		r := newRig(t, o)
		l := &lent{Documents: r.sources[shape.Rules]}
		r.server.documents[1] = l
		for fields, want := range map[string]string{
			traceParent + "01": visitorTrace + " ",
			traceParent + "01\nTracestate: a=1\nTracestate: b=2": visitorTrace + " a=1,b=2",
			traceParent + "01\nTracestate: nothing":              visitorTrace + " ",
			traceParent + "0x":                                   "",
			"Traceparent: none":                                  "",
		} {
			r.get(t, "/cms/rules/", fields)
			if !trusted {
				want = ""
			}
			if got := *l.trace.Load(); got != want {
				t.Errorf("trusted %t: %q leads to %q, want %q", trusted, fields, got, want)
			}
		}
	}
}

// BenchmarkTracing is a hit with tracing off, and on with a sampler that says no, and one that says
// yes.
//
//	go test -run '^$' -bench BenchmarkTracing ./proxy
func BenchmarkTracing(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"off": nil, "never": sdktrace.NeverSample(), "always": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			o := Options{}
			if sampler != nil {
				o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)).Tracer("benchmark")
			}
			s := quietServer(b, o)
			newHot(b, s, "/gvapp/", nil).benchmark(b, s.app.Server().Handler)
		})
	}
}
