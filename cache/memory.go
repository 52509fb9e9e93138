package cache

import (
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// An entry is what this process knows about a resource: a document, or that there is none. It is
// never modified.
type entry[V any] struct {
	doc    *Document // nil: there is none
	value  V
	origin origin
	// place is where Redis was when the document was last confirmed, and mark is from before that: see
	// watch.Key.
	place lease.Place
	mark  watch.Mark
	// redisFresh is the fresh_until that Redis had: another one below 1 is a soft purge.
	redisFresh int64
	// wanted: it is to be fetched without waiting for a read, since an operator has declared it
	// stale, or accepted what is held back, or this process has the lease and nobody here is
	// fetching: the reply of its acquire was lost.
	wanted bool
	// wantedUntil, on the clock of watch.Now, is until when another process wants this one to fetch
	// what it cannot.
	wantedUntil time.Duration
	// damaged is the etag of a document in Redis that cannot be used, so that the next fetch
	// replaces it.
	damaged string
	// fetchedAt is by Redis's clock, Unix milliseconds: when the document was filled, or, if Redis
	// does not hold it, when its fetch began.
	fetchedAt int64
	source    string

	// On the clock of watch.Now. From ahead on a read refreshes it early; until revalidateUntil,
	// and then until servableUntil, it can be served stale.
	ahead, freshUntil, revalidateUntil, servableUntil time.Duration
}

// etag is that of the copy in memory, if there is one.
func (e *entry[V]) etag() string {
	if e == nil || e.doc == nil {
		return ""
	}
	return e.doc.ETag
}

// holds reports whether there is a document that can still be served.
func (e *entry[V]) holds(now time.Duration) bool {
	return e != nil && e.doc != nil && now < e.servableUntil
}

// standing is how good the copy is.
func (e *entry[V]) standing(now time.Duration) standing {
	switch {
	case !e.holds(now):
		return copyNone
	case now < e.ahead:
		return copyFresh
	case now < e.freshUntil:
		return copyEnding
	case now < e.revalidateUntil:
		return copyAging
	}
	return copyStale
}

// pinned reports whether an operator has restored the document, which may be over.
func (e *entry[V]) pinned() bool { return e != nil && e.doc != nil && !e.doc.PinnedUntil.IsZero() }

// setTimes sets the entry's times for a document fetched age ago and fresh for another left.
func (e *entry[V]) setTimes(o *ReaderOptions[V], now, age, left time.Duration) {
	natural := now - age + o.TTL
	e.freshUntil = now + left
	if e.ahead = min(natural, e.freshUntil); e.pinned() {
		e.ahead = e.freshUntil
	}
	// The stale windows of a document declared stale early end when they would have ended anyway.
	until := max(natural, e.freshUntil)
	e.revalidateUntil = until + o.StaleWhileRevalidate
	e.servableUntil = max(e.revalidateUntil, until+o.StaleIfError)
	if e.origin == originLost || e.source != o.Source && !e.pinned() {
		e.dueFrom(now)
	}
}

// dueFrom makes the document stale from now on. One that Redis has lost is not served instead of
// waiting.
func (e *entry[V]) dueFrom(now time.Duration) {
	e.ahead, e.freshUntil = min(e.ahead, now), min(e.freshUntil, now)
	if e.origin == originLost {
		e.revalidateUntil = min(e.revalidateUntil, now)
	}
	doc := *e.doc
	if at := time.Now(); doc.FreshUntil.After(at) {
		doc.FreshUntil, doc.PinnedUntil, doc.PinnedBy = at, time.Time{}, ""
		e.doc = &doc
	}
}

// A beginning is that of a look.
type beginning struct {
	number uint64 // looks are numbered as they begin
	idle   bool   // nobody in this process was fetching
	wrote  bool   // it took a lease: what it has found is as late as its reply
}

// begin begins a look.
func (r *Reader[V]) begin() beginning {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order++
	return beginning{number: r.order, idle: r.flight == nil}
}

// enter admits what a look has found, and what is held back, unless one that began later has
// entered, or this process has written or kept something since: then another look follows. A hold
// that Redis refused to record stands here alone.
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
	r.put(e)
	if hold.Since > 0 || r.refusal.Load() == nil {
		r.putHold(hold)
	}
	r.mu.Unlock()
	r.save()
	r.tellHold()
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
	r.putHold(lease.Hold{})
	r.mu.Unlock()
	r.save()
	r.tellHold()
}

// put is called with mu held.
func (r *Reader[V]) put(e *entry[V]) {
	r.memory.Store(e)
	if e != nil && e.doc != nil {
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
	r.put(nil)
	return true
}

// part drops what Redis can no longer be asked about: a copy since whose confirmation a change was
// received that was not looked at. It is called when the link to Redis is lost, and no look that
// has begun enters after that.
func (r *Reader[V]) part() {
	r.mu.Lock()
	r.overtake()
	e := r.memory.Load()
	parted := e != nil && e.doc != nil && r.watched.Unseen(&e.mark)
	if parted {
		r.put(e.emptied())
	}
	r.mu.Unlock()
	if parted { // at the start memory is empty before the last good file was read
		r.save()
	}
}

// emptied is e without its document. Its place still tells a loss from a purge.
func (e *entry[V]) emptied() *entry[V] {
	return &entry[V]{place: e.place, mark: e.mark, redisFresh: e.redisFresh}
}
