package cache

import (
	"time"

	"vitrine/cache/watch"
)

// A Snapshot is what a reader holds at one moment, for display. It is never modified.
type Snapshot[V any] struct {
	// Document is the copy held, nil if there is nothing to serve. Its times are on this process's
	// clock.
	Document *Document
	// Value is what was prepared of it.
	Value V
	// Fresh reports whether it is served without a load, and ServableUntil is until when it can
	// be served if the loader fails.
	Fresh         bool
	ServableUntil time.Time
	// Coherent reports whether Document is known to be what Redis holds; otherwise it would be
	// checked before it is served.
	Coherent bool
	// Failing reports whether the last known attempt to load, by any process, failed. A document that
	// is held back is no failure.
	Failing bool
	// Fetching reports whether this process is loading, or waiting for the process that is.
	Fetching bool
	// HeldBack is what any process holds back, nil for nothing.
	HeldBack *HeldBack
}

// Snapshot returns what is held without reading it: it asks neither Redis nor the loader and starts
// no refresh.
func (r *Reader[V]) Snapshot() Snapshot[V] {
	r.mu.Lock()
	s := Snapshot[V]{Fetching: r.flight != nil}
	r.mu.Unlock()
	p := r.pause.Load()
	s.Failing = p.count > 0 && !p.isHeld()
	now, wall := watch.Now(), time.Now()
	e := r.memory.Load()
	s.HeldBack = r.heldBack(e)
	if !e.holds(now) {
		return s
	}
	s.Document, s.Value = e.doc, e.value
	s.Fresh, s.Coherent = now < e.freshUntil, r.watched.Trusts(&e.mark, now)
	s.ServableUntil = wall.Add(e.servableUntil - now)
	return s
}
