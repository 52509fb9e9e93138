package cache

import (
	"context"
	"time"
)

// An entry is a document in memory. It is never modified.
type entry[V any] struct {
	doc   *Document
	value V
	// epoch and gen are the store's and the reader's from before the document was read or written. What was loaded
	// while Redis was away has the epoch 0, which is never the store's once purges are heard.
	epoch, gen uint64
	fetchedAt  int64 // as in Redis, to tell a renewed document from the same one; 0 when loaded alone
	freshUntil int64
	source     string
	soft       bool // an operator has declared it stale, and nobody is fetching it yet

	// On the store's clock. From ahead on it is fetched ahead of time when read; from fresh on it is stale; until
	// revalidate, and then until failing, it may still be given out. Until leased somebody else fetches or waits.
	ahead, fresh, revalidate, failing, leased time.Duration

	// What these follow from: when it was fetched, until when it is fresh if it is of the policy's source, on the
	// store's clock too, and the policy that they were made by.
	born, until time.Duration
	policy      *Policy
}

// times sets the entry's times, by p, for a document that became what it is age ago and is fresh for another left.
func (e *entry[V]) times(p *Policy, now, age, left time.Duration) {
	e.born, e.until = now-age, now+left
	e.retime(p, now)
}

// retime sets them anew by another policy.
func (e *entry[V]) retime(p *Policy, now time.Duration) {
	e.policy = p
	natural := e.born + p.TTL
	e.fresh = e.until
	if e.source != p.Source {
		e.fresh = min(e.fresh, now)
	}
	e.ahead = min(natural, e.fresh)
	// The stale windows of a document that was declared stale early end when they would have ended anyway.
	stale := max(natural, e.fresh)
	e.revalidate = stale + p.StaleWhileRevalidate
	e.failing = max(e.revalidate, stale+p.StaleIfError)
}

// current gives the copy that may be used now, nil when there is none, and where it was checked.
//
// While Redis is away that is the copy in memory, as long as no invalidation was heard since it was read.
func (r *Reader[V]) current() (*entry[V], string) {
	now := r.store.now()
	if e := r.memory.Load(); e != nil && r.coherent(e, now) {
		return e, DetailMemory
	}
	if r.store.Up() {
		e, err := r.ask(now - trustWindow)
		if err == nil {
			return e, DetailRedis
		}
		r.store.failed(err)
	}
	if e := r.memory.Load(); e != nil && e.gen == r.gen.Load() {
		return e, DetailRedisAway
	}
	return nil, DetailRedisAway
}

// asking is one look at Redis that several goroutines wait for.
type asking[V any] struct {
	done  chan struct{}
	at    time.Duration
	entry *entry[V]
	err   error
}

// ask looks at Redis, or shares a look that began after since.
func (r *Reader[V]) ask(since time.Duration) (*entry[V], error) {
	for {
		r.mu.Lock()
		a := r.asking
		if a == nil {
			a = &asking[V]{done: make(chan struct{}), at: r.store.now()}
			r.asking = a
			r.mu.Unlock()
			a.entry, a.err = r.look()
			r.mu.Lock()
			r.asking = nil
			r.mu.Unlock()
			close(a.done)
			return a.entry, a.err
		}
		r.mu.Unlock()
		<-a.done
		if a.err != nil || a.at > since {
			return a.entry, a.err
		}
	}
}

// look reads what Redis holds and admits it to memory.
//
// The interleavings that the epoch and the generation, both taken before the read, guard against:
//
//  1. read, purge heard, admit: the entry carries the old generation and is never given out.
//  2. read, connection lost, purge not heard, connection back, admit: the same by the epoch.
//  3. purge, refill by another, read of the new copy, the purge's push heard late: the new copy carries the old
//     generation and is looked at once more; nothing wrong is served.
//  4. two reads, the older admitted last: it carries an older generation, or the push that separates the two is
//     still on its way and removes it within trustWindow.
func (r *Reader[V]) look() (*entry[V], error) {
	began, epoch, gen := r.store.now(), r.store.epoch.Load(), r.gen.Load()
	prev := r.memory.Load()
	have := ""
	if prev != nil {
		have = prev.doc.ETag
	}
	ctx, cancel := context.WithTimeout(r.store.ctx, r.store.timeout)
	defer cancel()
	rec, err := r.store.look(ctx, r.key, have)
	if err != nil {
		return nil, err
	}
	r.noteFailure(rec)
	r.void(rec, began)
	r.adopt(rec.lease)
	if rec.etag == "" || rec.layout != layout {
		r.forget(prev)
		return nil, nil //nolint:nilnil // no document and no fault: a miss
	}
	e := r.entry(rec, prev)
	if e == nil {
		r.forget(prev)
		return nil, nil //nolint:nilnil // a document that cannot be used is a miss
	}
	e.epoch, e.gen = epoch, gen
	if e.soft && (prev == nil || !prev.soft) {
		r.store.purged(r.key, "soft")
	}
	r.admit(e)
	return e, nil
}

// entry makes an entry of a record, reusing what prev has of the same content; nil when its body is not what its etag says.
func (r *Reader[V]) entry(rec record, prev *entry[V]) *entry[V] {
	now, wall := r.store.now(), time.Now()
	ms := func(d int64) time.Duration { return time.Duration(d) * time.Millisecond }
	doc := &Document{
		ETag:         rec.etag,
		FetchedAt:    wall.Add(-ms(rec.now - rec.fetchedAt)),
		ChangedAt:    time.UnixMilli(rec.changedAt),
		FreshUntil:   wall.Add(ms(max(rec.freshUntil, rec.fetchedAt) - rec.now)),
		UpstreamETag: rec.upstreamETag, UpstreamLastModified: rec.upstreamLastModified,
	}
	e := &entry[V]{doc: doc, fetchedAt: rec.fetchedAt, freshUntil: rec.freshUntil, source: rec.source}
	switch {
	case prev != nil && prev.doc.ETag == rec.etag:
		doc.Body = prev.doc.Body
	case rec.body != nil && ETag(rec.body) == rec.etag:
		doc.Body = rec.body
	default:
		r.damage(rec.etag, "the body is not what the etag says")
		return nil
	}
	if prev != nil && prev.doc.ETag == rec.etag && prev.doc.ChangedAt.Equal(doc.ChangedAt) {
		e.value = prev.value
		if prev.fetchedAt == rec.fetchedAt && prev.freshUntil == rec.freshUntil {
			e.doc = prev.doc // the very same: its times on this clock must not jump by the length of a round trip
		}
	} else {
		value, err := r.prepare(doc)
		if err != nil {
			r.damage(rec.etag, err.Error())
			return nil
		}
		e.value = value
	}
	e.times(r.policy.Load(), now, ms(rec.now-rec.fetchedAt), ms(rec.freshUntil-rec.now))
	if rec.lease != "" {
		e.leased = now + ms(rec.leaseUntil-rec.now)
	}
	e.soft = rec.freshUntil <= 0
	return e
}

// admit puts e into memory, unless what is there was read later.
func (r *Reader[V]) admit(e *entry[V]) {
	r.mu.Lock()
	r.lastETag, r.lastAt = e.doc.ETag, e.doc.ChangedAt.UnixMilli()
	if r.damaged == e.doc.ETag {
		r.damaged = "" // the same content, whole again
	}
	r.mu.Unlock()
	for {
		cur := r.memory.Load()
		if cur != nil && cur.epoch >= e.epoch && cur.gen > e.gen {
			return
		}
		if r.memory.CompareAndSwap(cur, e) {
			r.retime() // the policy may have changed since e was made
			return
		}
	}
}

// forget drops prev, which Redis does not hold any more.
func (r *Reader[V]) forget(prev *entry[V]) {
	if prev != nil && r.memory.CompareAndSwap(prev, nil) && r.store.now() < prev.failing {
		r.store.purged(r.key, "hard")
	}
}

// damage notes that the document in Redis with this etag cannot be used, so that the next fetch replaces it.
func (r *Reader[V]) damage(etag, why string) {
	r.mu.Lock()
	known := r.damaged == etag
	r.damaged = etag
	r.mu.Unlock()
	if !known {
		r.store.log.Error("what redis holds cannot be used and is fetched anew", "resource", r.key, "etag", etag, "error", why)
	}
}

// noteFailure learns from the hash whether the last attempt to fetch, whoever made it, failed.
func (r *Reader[V]) noteFailure(rec record) {
	switch {
	case parseFailure(rec.lease).count > 0:
		r.failing.Store(true)
	case rec.lease == "":
		r.failing.Store(false)
	}
}
