package cache

import (
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// An entry is what this process knows about a resource: a document, or that there is none. It is
// never modified.
type entry[V any] struct {
	doc   *Document // nil: there is none
	value V
	// mark is from before the document was read from Redis, or loaded: see watch.Key.
	mark watch.Mark
	// redis is what Redis held at that time.
	redis held
	// detail is the detail of an answer from memory: [DetailMemory], or a problem with Redis.
	detail string
	// unstored: Redis does not hold the document, since it was unreachable, refused it or has lost
	// it.
	unstored bool
	// wanted: it is to be fetched without waiting for a read, since an operator has declared it stale,
	// or this process has the lease and nobody here is fetching: the reply of its acquire was lost.
	wanted bool
	// lease is the one that Redis had when the document was read, filled the one that it was stored
	// under by this process: what was read while that lasted is older.
	lease, filled string
	// fetchedAt is by Redis's clock, Unix milliseconds.
	fetchedAt int64
	source    string

	// On the clock of watch.Now. From ahead on a read refreshes it early; until revalidateUntil,
	// and then until servableUntil, it can be served stale.
	ahead, freshUntil, revalidateUntil, servableUntil time.Duration
}

// held is what Redis holds of a resource.
type held struct {
	etag                  string
	fetchedAt, freshUntil int64
	// dataset and run name the data and the process: with another run and without the dataset,
	// Redis has lost its data.
	dataset, run string
	vacant       string // see lease.Record
	damaged      string // why the document cannot be used, so that the next fetch replaces it
}

func heldIn(rec *lease.Record, run string) held {
	h := held{freshUntil: rec.FreshUntil, dataset: rec.Dataset, run: run, vacant: rec.Vacant}
	if rec.Holds() {
		h.etag, h.fetchedAt = rec.ETag, rec.FetchedAt
	}
	return h
}

// etag is that of the copy in memory, if there is one.
func (e *entry[V]) etag() string {
	if e == nil || e.doc == nil {
		return ""
	}
	return e.doc.ETag
}

// lost reports whether Redis has lost the document. It is served only if nothing can be loaded.
func (e *entry[V]) lost() bool { return e.detail == DetailRedisLost }

// lostOnly reports whether there is a document that Redis has lost, and nobody has put back.
func (e *entry[V]) lostOnly() bool { return e.holds(watch.Now()) && e.lost() && e.unstored }

// holds reports whether there is a document that can still be served.
func (e *entry[V]) holds(now time.Duration) bool {
	return e != nil && e.doc != nil && now < e.servableUntil
}

// setTimes sets the entry's times for a document fetched age ago and fresh for another left.
func (e *entry[V]) setTimes(o *ReaderOptions[V], now, age, left time.Duration) {
	natural := now - age + o.TTL
	e.freshUntil = min(now+left, natural+o.TTL/10+time.Millisecond) // whatever was written to Redis by hand
	e.ahead = min(natural, e.freshUntil)
	// The stale windows of a document declared stale early end when they would have ended anyway.
	stale := max(natural, e.freshUntil)
	e.revalidateUntil = stale + o.StaleWhileRevalidate
	e.servableUntil = max(e.revalidateUntil, stale+o.StaleIfError)
	if e.lost() || e.source != o.Source {
		e.dueFrom(now)
	}
}

// dueFrom makes the document stale from now on. One that Redis has lost is not served instead of waiting.
func (e *entry[V]) dueFrom(now time.Duration) {
	e.ahead, e.freshUntil = min(e.ahead, now), min(e.freshUntil, now)
	if e.lost() {
		e.revalidateUntil = min(e.revalidateUntil, now)
	}
	doc := *e.doc
	if at := time.Now(); doc.FreshUntil.After(at) {
		doc.FreshUntil = at
		e.doc = &doc
	}
}

// before reports whether e was read or stored before o.
func (e *entry[V]) before(o *entry[V]) bool {
	switch same := e.redis.run == o.redis.run; {
	case same && o.filled != "" && (e.lease == o.filled || 0 <= e.mark.At() && e.mark.At() < o.mark.At()):
		return true
	case same && e.filled != "" && o.lease == e.filled:
		return false
	}
	return o.mark.After(&e.mark)
}

// admit puts e into memory, unless the entry there is later.
func (r *Reader[V]) admit(e *entry[V]) {
	for {
		cur := r.memory.Load()
		if cur != nil && e.before(cur) {
			return
		}
		if r.memory.CompareAndSwap(cur, e) {
			if e.doc != nil {
				r.mu.Lock()
				r.lastETag, r.lastAt = e.doc.ETag, e.doc.ChangedAt.UnixMilli()
				r.mu.Unlock()
			}
			watch.Signal(r.unsaved)
			if e.damaged() != "" && e.damaged() != cur.damaged() {
				r.damage(&e.redis)
			}
			return
		}
	}
}

// damaged is the etag of a document in Redis that cannot be used, if there is one.
func (e *entry[V]) damaged() string {
	if e == nil || e.redis.damaged == "" {
		return ""
	}
	return e.redis.etag
}
