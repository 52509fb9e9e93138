package cache

import (
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// An entry is what this process knows about a resource: a document, or that there is none, or, as the
// zero value, nothing. It is never modified.
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
	// stale, or accepted what is held back.
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
	// hold is what is held back instead of it.
	hold lease.Hold

	// On the clock of watch.Now. From ahead on a read refreshes it early; until revalidateUntil,
	// and then until servableUntil, it can be served stale.
	ahead, freshUntil, revalidateUntil, servableUntil time.Duration
}

// etag is that of the copy in memory, if there is one.
func (e *entry[V]) etag() string {
	if e.doc == nil {
		return ""
	}
	return e.doc.ETag
}

// holds reports whether there is a document that can still be served.
func (e *entry[V]) holds(now time.Duration) bool {
	return e.doc != nil && now < e.servableUntil
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
func (e *entry[V]) pinned() bool { return e.doc != nil && !e.doc.PinnedUntil.IsZero() }

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

// emptied is e without its document. Its place still tells a loss from a purge.
func (e *entry[V]) emptied() *entry[V] {
	return &entry[V]{place: e.place, mark: e.mark, redisFresh: e.redisFresh, hold: e.hold}
}

// detail is what an answer from the copy says while it is fresh.
func (e *entry[V]) detail(l link) string {
	switch {
	case l == linkAway || e.origin == originAlone:
		return DetailRedisAway
	case e.origin == originRefused:
		return DetailRedisRefused
	case e.origin == originLost:
		return DetailRedisLost
	case e.pinned():
		return DetailPinned
	case l == linkLooked:
		return DetailRedis
	}
	return DetailMemory
}

func (e *entry[V]) answer(st Status) Answer[V] {
	return Answer[V]{Value: e.value, Document: e.doc, Status: st}
}

// ms is so many milliseconds, or a hundred years, whatever somebody wrote into Redis.
func ms(n int64) time.Duration {
	const most = 100 * 365 * 24 * 60 * 60 * 1000
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}
