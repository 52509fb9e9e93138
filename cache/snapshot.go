package cache

import "time"

// The states of a [Snapshot].
const (
	StateFresh   = "fresh"
	StateStale   = "stale"   // past its freshness, and still servable while it is refreshed or the loader fails
	StateMissing = "missing" // nothing that may be served
)

// A Snapshot is what a reader holds at one moment, for people and their tools. It is never modified.
type Snapshot struct {
	// State is one of the State constants.
	State string
	// Document is what is held, nil when State is missing. Its times are on this process's clock.
	Document *Document
	// ServableUntil is when Document may not be served any more, even if the loader fails.
	ServableUntil time.Time
	// Coherent says that Document is known to be what Redis holds; otherwise it would be checked before it is served.
	Coherent bool
	// Failing says that the last attempt to load that this process knows of failed, whoever made it.
	Failing bool
	// Fetching says that this process is loading, or waiting for whoever is.
	Fetching bool
	// LeasedUntil is when the lease that another process was last seen to hold ends; zero when none was seen.
	LeasedUntil time.Time
}

// Snapshot tells what is held without reading it: it asks neither Redis nor the loader and starts no refresh.
func (r *Reader[V]) Snapshot() Snapshot {
	r.mu.Lock()
	s := Snapshot{State: StateMissing, Failing: r.failing.Load(), Fetching: r.flight != nil}
	r.mu.Unlock()
	now, wall := r.store.now(), time.Now()
	e := r.memory.Load()
	if e == nil || e.gen != r.gen.Load() || now >= e.failing {
		return s
	}
	s.Document, s.State = e.doc, StateStale
	if now < e.fresh {
		s.State = StateFresh
	}
	s.Coherent = r.coherent(e, now)
	s.ServableUntil = wall.Add(e.failing - now)
	if e.leased > now {
		s.LeasedUntil = wall.Add(e.leased - now)
	}
	return s
}
