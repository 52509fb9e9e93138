// Package processors reserves half the processors for hits. Other work on behalf of clients (TLS
// handshakes, large requests, forms of a document that are not held) first takes a place in a
// [Half] of its kind, waits for one or goes without, and gives it back when it is done.
package processors

import (
	"runtime"
	"sync"
)

// A Half lets half the processors at a time do one kind of work, and at least one: the others are
// for hits. It follows GOMAXPROCS, which Go adapts to a container's limit. The zero value has
// nothing taken.
type Half struct {
	mu      sync.Mutex
	taken   int
	waiting []chan struct{} // first come, first served: each is closed when a processor is taken for it
}

// Take takes a processor, for which it waits. [Half.Give] gives it back.
func (h *Half) Take() {
	h.mu.Lock()
	if h.free() {
		h.taken++
		h.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	h.waiting = append(h.waiting, turn)
	h.mu.Unlock()
	<-turn
}

// TryTake takes a processor if one is free and nobody waits for it, and reports whether it did.
func (h *Half) TryTake() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := h.free()
	if free {
		h.taken++
	}
	return free
}

// Give gives a processor back.
func (h *Half) Give() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken--
	for len(h.waiting) > 0 && h.taken < most() { // there may be more of them by now
		h.taken++
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
	}
}

func (h *Half) free() bool { return len(h.waiting) == 0 && h.taken < most() }

func most() int { return max(1, runtime.GOMAXPROCS(0)/2) }
