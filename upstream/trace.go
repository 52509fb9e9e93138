package upstream

import (
	"context"
	"net/http"
)

// Trace is the trace context of the request that a fetch is made for (W3C Trace Context, sections 3.2 and 3.3), as it
// came. It is passed on unchanged: vitrine makes no spans of its own, so that in a trace the CMS's span is a child of
// the visitor's.
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
