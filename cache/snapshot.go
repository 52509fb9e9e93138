package cache

import (
	"time"

	"vitrine/cache/watch"
)

// The states of a [Snapshot].
const (
	StateFresh   = "fresh"
	StateStale   = "stale"   // past its freshness, and still servable while it is refreshed or the loader fails
	StateMissing = "missing" // nothing to serve
)

// A Snapshot is what a reader holds at one moment, for display. It is never modified.
type Snapshot[V any] struct {
	// State is one of the State constants.
	State string
	// Document is the copy held, nil if State is missing. Its times are on this process's clock.
	Document *Document
	// Value is what was prepared of it.
	Value V
	// ServableUntil is until when Document can be served if the loader fails.
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
	s := Snapshot[V]{State: StateMissing, Fetching: r.flight != nil}
	r.mu.Unlock()
	if p := r.pause.Load(); p != nil {
		s.Failing = !p.isHeld()
	}
	now, wall := watch.Now(), time.Now()
	e := r.memory.Load()
	s.HeldBack = r.heldBack(e)
	if !e.holds(now) {
		return s
	}
	s.Document, s.Value, s.State = e.doc, e.value, StateStale
	if now < e.freshUntil {
		s.State = StateFresh
	}
	s.Coherent = r.watched.Trusts(&e.mark, now)
	s.ServableUntil = wall.Add(e.servableUntil - now)
	return s
}
