// Package processors reserves half the processors for hits. Other work on behalf of clients (TLS
// handshakes, large requests, forms of a document that are not held) first takes a place in a
// [Half] of its kind, waits for one or goes without, and gives it back when it is done.
package processors

import "runtime"

// A Half lets half the processors at a time do one kind of work, and at least one: the others are
// for hits. Who waits comes first.
type Half chan struct{}

// New makes one for the processors that Go uses now.
func New() Half { return make(Half, max(1, runtime.GOMAXPROCS(0)/2)) }

// Take takes a processor, for which it waits. [Half.Give] gives it back.
func (h Half) Take() { h <- struct{}{} }

// TryTake takes a processor if one is free, and reports whether it did.
func (h Half) TryTake() bool {
	select {
	case h <- struct{}{}:
		return true
	default:
		return false
	}
}

// Give gives a processor back.
func (h Half) Give() { <-h }
