package cache

import (
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// A beginning is that of a look.
type beginning struct {
	number uint64 // looks are numbered as they begin
	wrote  bool   // it took a lease: what it has found is as late as its reply
}

// begin begins a look.
func (r *Reader[V]) begin() beginning {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order++
	return beginning{number: r.order}
}

// enter admits what a look has found, and what is held back, unless one that began later has
// entered, or this process has written or kept something since: then another look follows. A hold
// that Redis refused to record stands here alone, as long as the copy does, and one that it cannot
// forget is over here.
func (r *Reader[V]) enter(b beginning, e *entry[V], hold lease.Hold) bool {
	r.mu.Lock()
	if b.number <= r.entered {
		r.mu.Unlock()
		watch.Signal(r.wake)
		return false
	}
	if r.entered = b.number; b.wrote {
		r.overtake()
	}
	over := e.origin == originRefused && e.fetchedAt > hold.Since
	was := r.memory.Load()
	same := e.doc != nil && was.etag() == e.doc.ETag && was.fetchedAt == e.fetchedAt
	if e.hold = hold; r.refusal.Load() != nil && same && (hold.Since == 0 || over) {
		e.hold = was.hold
	}
	r.put(e)
	r.mu.Unlock()
	if e.standing(watch.Now()) != copyFresh && r.beside.Swap(false) { // perhaps since the look began
		watch.Signal(r.wake)
	}
	r.save()
	return true
}

// overtake lets no look enter that has begun. It is called with mu held.
func (r *Reader[V]) overtake() {
	r.order++
	r.entered = r.order
}

// admit admits what this process has stored, or keeps since Redis does not hold it, unless part
// would drop it. Nothing is held back any more, and no look that has begun enters after that.
func (r *Reader[V]) admit(e *entry[V]) {
	r.mu.Lock()
	r.overtake()
	if r.watched.Parted(&e.mark) {
		e = e.emptied()
	}
	r.put(e)
	r.mu.Unlock()
	r.save()
}

// put is called with mu held.
func (r *Reader[V]) put(e *entry[V]) {
	r.memory.Store(e)
	if e.doc != nil {
		r.lastETag, r.lastAt = e.doc.ETag, e.doc.ChangedAt.UnixMilli()
	}
}

// drop drops e, unless something else is in memory by now.
func (r *Reader[V]) drop(e *entry[V]) bool {
	defer r.save() // when mu is free
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory.Load() != e {
		return false
	}
	r.overtake()
	r.put(&entry[V]{})
	return true
}

// part drops what Redis can no longer be asked about: a copy since whose confirmation a change was
// received that was not looked at. It is called when the link to Redis is lost, and no look that
// has begun enters after that.
func (r *Reader[V]) part() {
	r.mu.Lock()
	r.overtake()
	e := r.memory.Load()
	parted := e.doc != nil && r.watched.Unseen(&e.mark)
	if parted {
		r.put(e.emptied())
	}
	r.mu.Unlock()
	if parted { // at the start memory is empty before the last good file was read
		r.save()
	}
}

// save has the file written, or removes it at once if memory holds nothing any more: it is gone
// before anything is fetched after a purge.
func (r *Reader[V]) save() {
	if r.unsaved == nil {
		return
	}
	if r.memory.Load().doc == nil {
		r.warn(&r.unremovable, "the last good copy, which may have been purged, cannot be removed", r.file.Remove())
	}
	watch.Signal(r.unsaved)
}

// setHold notes what this process holds back for what is in memory. No look that has begun replaces
// it.
func (r *Reader[V]) setHold(hold lease.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overtake()
	holding := *r.memory.Load()
	holding.hold = hold
	r.put(&holding)
}

// heldBack is what is known of the document that is held back for e, nil if there is none.
func (r *Reader[V]) heldBack(e *entry[V]) *HeldBack {
	hold := e.hold
	if hold.Since == 0 {
		return nil
	}
	h := &HeldBack{Since: time.UnixMilli(hold.Since), Reason: hold.Reason, Before: hold.Before, Now: hold.Now}
	now, wall := watch.Now(), time.Now()
	if e.holds(now) {
		h.Until = wall.Add(e.servableUntil - now)
	}
	if until := wall.Add(ms(hold.Until - r.inRedis(now))); hold.Until > 0 && (h.Until.IsZero() || until.Before(h.Until)) {
		h.Until = until
	}
	return h
}

// alone is the copy that can be used while Redis is unreachable, or its place: a change that was
// received and not looked at may be its purge.
func (r *Reader[V]) alone() *entry[V] {
	e := r.memory.Load()
	if r.watched.Unseen(&e.mark) {
		return e.emptied()
	}
	return e
}

// knownChange is when the content with this etag last changed, or 0 if unknown here.
func (r *Reader[V]) knownChange(etag string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastETag == etag {
		return r.lastAt
	}
	return 0
}
