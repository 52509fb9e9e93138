//go:build !race

package proxy

import "testing"

// The race detector has the portable reads, which may find nothing first.
func TestOneSystemCallReadsARequestAndOneWritesAnAnswerOfAnySize(t *testing.T) {
	r := newRig(t, Options{})
	serveOnSocket(t, r, nil)
	testSystemCalls(t, r, r.dial(t), []int{3_000, 6_000, 55_000}, true)
}
