package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
)

// Trace is the value of the header fields traceparent and tracestate (W3C Trace Context); the zero
// value is none.
type Trace struct{ Parent, State string }

// traceParent is version 00, whose ids are not zero: a trace of another version is not continued.
var traceParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceState is a list of KEY=VALUE.
var traceState = regexp.MustCompile(`^` + traceMember + `(?:[ \t]*,[ \t]*` + traceMember + `)*$`)

const traceMember = `[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*[\x21-\x2b\x2d-\x3c\x3e-\x7e]`

// ParseTrace reads the fields of a request. The result is zero if parent is invalid; an invalid
// state is dropped.
func ParseTrace(parent, state string) Trace {
	id, rest, _ := strings.Cut(strings.TrimPrefix(parent, "00-"), "-")
	if !traceParent.MatchString(parent) || strings.Trim(id, "0") == "" || strings.HasPrefix(rest, "0000000000000000") {
		return Trace{}
	}
	if len(state) > 512 || !traceState.MatchString(state) {
		state = ""
	}
	return Trace{parent, state}
}

// NewTrace begins a trace. It is marked as sampled, since a CMS that follows the mark would
// otherwise record none of the few fetches.
func NewTrace() Trace {
	var ids [24]byte
	_, _ = rand.Read(ids[:]) // it never fails
	return Trace{Parent: "00-" + hex.EncodeToString(ids[:16]) + "-" + hex.EncodeToString(ids[16:]) + "-01"}
}

// ID is the trace's id, 32 hexadecimal digits; empty for none.
func (t Trace) ID() string {
	if t.Parent == "" {
		return ""
	}
	return t.Parent[3:35]
}

type traceKey struct{}

// WithTrace returns a context for fetches that are part of a trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the trace of a context.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
