package cache

import (
	"time"

	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// A Snapshot is what a reader holds at one moment, for display. It is never modified.
type Snapshot[V any] struct {
	// Document is the cached copy, nil if there is nothing to serve. Its times are on this process's
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
	// Failures are how many loads in a row have failed, in all processes, and Err is the last one's. A
	// document that is held back is no failure.
	Failures int
	Err      error
	// Set and Seq are where Redis is in its history of the resource: see [lease.Generation].
	Set string
	Seq int64
	// Fetching reports whether this process is loading, or waiting for the process that is.
	Fetching bool
	// HeldBack is what any process holds back, nil for nothing.
	HeldBack *guard.Hold
	// Foreign reports whether the fleet has another source: this process serves what Redis has, and
	// fetches nothing.
	Foreign bool
}

// Snapshot returns what is cached without reading it: it asks neither Redis nor the loader and starts
// no refresh.
func (r *Reader[V]) Snapshot() Snapshot[V] {
	v, now, wall := r.view.Load(), poll.Now(), time.Now()
	s := Snapshot[V]{Fetching: v.loading, Foreign: v.saw.Foreign(r.o.Source), Set: v.saw.Set, Seq: v.saw.Seq}
	if f := v.failure; f != nil && !f.isHeld() {
		s.Failures, s.Err = f.count, f.err
	}
	c := v.copy
	s.HeldBack = v.heldBack(now)
	if c.standing(now) == copyNone {
		return s
	}
	s.Document, s.Value, s.Fresh = c.doc, c.value, now < c.fresh
	s.Coherent = c.source == stored && !v.unreachable && now-v.sent < r.store.idle+r.store.o.Timeout
	s.ServableUntil = wall.Add(c.usable - now)
	return s
}
