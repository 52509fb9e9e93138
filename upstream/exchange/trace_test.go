package exchange

import (
	"strings"
	"testing"
)

func TestOnlyAValidTraceIsContinued(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const parent = "00-" + id + "-" + span + "-01"
	for _, state := range []string{"", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1, b=2", "tenant@vendor=x y"} {
		if got := ParseTrace(parent, state); got != (Trace{parent, state}) || got.ID() != id {
			t.Errorf("%q: %q", state, got)
		}
	}
	for _, state := range []string{"nothing", "A=1", "a=1\r\nX: y", "a=1,,b=\x7f", "a=" + strings.Repeat("x", 600)} {
		if got := ParseTrace(parent, state); got != (Trace{Parent: parent}) {
			t.Errorf("the state %q was kept: %q", state, got)
		}
	}
	for _, parent := range []string{
		"", "none", "ff-" + id + "-" + span + "-01", "01-" + id + "-" + span + "-01-x", parent + "-x", parent + "\n",
		"00-" + strings.ToUpper(id) + "-" + span + "-01", "00-" + strings.Repeat("0", 32) + "-" + span + "-01",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01", parent + ", " + parent,
	} {
		if got := ParseTrace(parent, ""); got != (Trace{}) {
			t.Errorf("%q was continued as %q", parent, got)
		}
	}
	a, b := NewTrace(), NewTrace()
	if a == b || ParseTrace(a.Parent, "") != a {
		t.Errorf("%q, %q", a, b)
	}
}
