package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// ask looks at Redis, or shares a look: one that began after since, unless a change was received
// after that one and before ask was called.
func (r *Reader[V]) ask(since time.Duration) (*entry[V], error) {
	for asked := watch.Now(); ; {
		r.mu.Lock()
		a := r.asking
		if a == nil {
			a = &asking[V]{done: make(chan struct{}), at: watch.Now()}
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
		if a.err != nil || a.at > asked || a.at > since && !r.watched.Changed(&a.entry.mark) {
			return a.entry, a.err
		}
	}
}

var (
	// errParted means that the listening connection ended before it could confirm a look.
	errParted = errors.New("the listening connection ended during a look")
	// errEarly means that a look shows a purge only together with a change that may be later than it.
	errEarly = errors.New("a change was received during a look")
)

// look reads what Redis holds and admits it to memory.
//
// The interleavings that the mark, taken before the read, guards against:
//
//  1. read, purge received, admit: the entry carries an old mark and is never served.
//  2. read, connection lost, purge not received, connection back, admit: the same, since a
//     session's beginning counts as a change.
//  3. purge, refill by another, read of the new copy, the purge's push received late: the new copy
//     carries the old mark and is checked once more; nothing wrong is served.
//  4. read of an empty Redis, another's first stub, its push received, admit: a stub that has come
//     and gone would look like that, and is a purge. A look that began after the push knows which
//     it was.
//
// A look that something kept or stored here has overtaken is repeated: the visitors who share it may
// have been given that.
func (r *Reader[V]) look() (e *entry[V], err error) {
	for try := range 3 { // a session that ends is followed by none, or by another
		began, prev, mark := r.begin(), r.memory.Load(), r.watched.Mark()
		rec, err := r.read(prev.etag())
		if err != nil {
			return nil, err
		}
		r.void(&rec, mark.At())
		if e, err = r.learn(began, prev, &rec, mark, try == 2); err == nil && (try == 2 || r.memory.Load() == e) {
			return e, nil
		}
	}
	return nil, errParted
}

// acquire looks at Redis and takes the lease, if it is free and a fetch is due. Held is what the
// look has found, with a mark from before it and the place after it. Where that is unknown, a lease
// that was taken is given back.
func (r *Reader[V]) acquire(ctx context.Context) (l lease.Lease, held *entry[V], err error) {
	began, prev := r.begin(), r.memory.Load()
	q := lease.Request{Have: prev.etag(), Token: r.store.token(), Length: r.leaseLength(), TTL: r.o.TTL, Source: r.o.Source, Damaged: prev.damaged}
	if prev.origin != originStored {
		q.Newer = prev.fetchedAt
	}
	if prev.origin == originLost {
		q.Lost = prev.fetchedAt
	}
	q.Unserved = r.pause.Load().isHeld() && !prev.holds(watch.Now())
	r.mu.Lock()
	if r.flight != nil {
		r.flight.token = q.Token
	}
	r.mu.Unlock()
	mark, err := r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		l, err = r.hash.Acquire(ctx, c, q)
		return l.Wrote, err
	})
	if err != nil {
		return l, nil, err
	}
	began.wrote = l.Outcome == lease.Granted
	held, err = r.learn(began, prev, &l.Record, mark, false)
	if err != nil && l.Outcome == lease.Granted {
		_, _ = r.release(ctx, l, pause{}) // otherwise it expires
	}
	return l, held, err
}

// learn admits what was read after mark. Unless this is the last try, it does not take a change
// that was received since mark for a purge.
func (r *Reader[V]) learn(began beginning, prev *entry[V], rec *lease.Record, mark watch.Mark, last bool) (*entry[V], error) {
	since := r.watched.Since(&prev.mark)
	if doubtful(prev.place, rec.Place, since) {
		if !r.watched.Confirm(r.store.ctx, &mark) {
			return nil, errParted
		}
		since = r.watched.Since(&prev.mark)
	}
	r.clock.Store(time.UnixMilli(rec.Now).UnixNano() - int64(watch.Now()))
	r.noteFailure(rec, mark)
	e, kind := r.reconcile(prev, rec, since)
	if kind == "hard" && !last && r.watched.Unseen(&mark) {
		return nil, errEarly
	}
	e.mark, e.place, e.redisFresh = mark, rec.Place, rec.FreshUntil
	if r.refusal.Load() == nil { // otherwise what is wanted could not be stored, and would be for ever
		e.wanted = e.wanted || rec.Accept && rec.Hold.Since > 0
	}
	r.giveBackLeftover(rec)
	e.wantedUntil = watch.Now() + rec.Wanted
	if rec.Restore != "" {
		r.carryOut(rec.Restore)
	}
	if r.enter(began, e, rec.Hold) {
		r.tell(prev, e, kind)
		r.see(kind == "hard")
	} else {
		e.wanted = false // another look follows
	}
	return e, nil
}

// reconcile decides between memory and Redis. The kind of a purge that this shows is "hard", "soft"
// or "".
func (r *Reader[V]) reconcile(prev *entry[V], rec *lease.Record, since watch.Received) (e *entry[V], kind string) {
	now := watch.Now()
	var taken *entry[V]
	var damaged error
	if rec.Holds == lease.Document {
		taken, damaged = r.entry(rec, prev)
	}
	c := held{exists: prev.holds(now), origin: prev.origin, fetched: prev.fetchedAt}
	pinned := rec.Pinned()
	o := offer{exists: taken != nil, fresh: rec.FreshUntil > rec.Now, pinned: pinned, fetched: rec.FetchedAt}
	if o.fetched > rec.Now {
		o.fetched, o.fresh = 0, false
	}
	f := fateOf(prev.place, rec.Place, since)
	// Acquire makes another number below 0 of an operator's 0. A second 0 is like the first where it
	// cannot, but for the change; while the document is pinned, 0 stands, and any change may be another.
	soft := c.exists && rec.Holds == lease.Document &&
		(rec.FreshUntil != prev.redisFresh && (rec.FreshUntil == 0 || rec.FreshUntil < 0 && prev.redisFresh != 0) ||
			!pinned && rec.FreshUntil == 0 && since.Changes > 0)
	d := decide(c, f, o)
	switch {
	case d.keep:
		copied := *prev
		e = &copied
		e.origin, e.wanted = d.origin, soft && rec.Soft() && !pinned
		if d.due || soft && !pinned {
			e.dueFrom(now)
		}
	case taken != nil:
		e = taken
		e.wanted = rec.Soft() && !pinned
	default:
		e = &entry[V]{}
	}
	if e.damaged = ""; damaged != nil {
		e.damaged = rec.ETag
		if prev.damaged != rec.ETag {
			r.damage(rec.ETag, damaged)
		}
	}
	switch {
	case soft:
		kind = "soft"
	case c.exists && f == fatePurged:
		kind = "hard"
	}
	return e, kind
}

// tell logs and counts what a look has changed.
func (r *Reader[V]) tell(prev, e *entry[V], kind string) {
	switch {
	case kind == "soft" && prev.pinned() && !e.pinned() && time.Now().Before(prev.doc.PinnedUntil):
		r.store.log.Info("no longer serving a restored document", "resource", r.key)
	case kind == "soft" && prev.redisFresh == 0 && e.redisFresh == 0: // read before it was received
	case kind != "":
		r.store.purged(r.key, kind, e.pinned())
	}
	if e.pinned() && !prev.pinned() {
		r.store.log.Info("serving a restored document, and fetching nothing", "resource", r.key, "until", e.doc.PinnedUntil, "by", e.doc.PinnedBy)
	}
	if e.doc != nil && e.origin == originLost && prev.origin != originLost {
		r.store.log.Warn("redis lost its data; fetching again, and keeping the last good copy until then", "resource", r.key)
	}
}

// entry makes an entry from a record, reusing prev's values for the same content. It fails on a
// document that cannot be used.
func (r *Reader[V]) entry(rec *lease.Record, prev *entry[V]) (e *entry[V], damaged error) {
	now, wall := watch.Now(), time.Now()
	age := ms(rec.Now - min(max(rec.Since(), 0), rec.Now))
	left := min(ms(rec.FreshUntil-rec.Now), r.o.TTL+r.o.TTL/10+time.Millisecond-age) // whatever was written by hand
	if rec.Pinned() {
		left = ms(rec.PinnedUntil - rec.Now)
	}
	same := prev.doc != nil && prev.doc.ETag == rec.ETag
	doc := &Document{
		ETag:         rec.ETag,
		FetchedAt:    wall.Add(-age),
		ChangedAt:    time.UnixMilli(rec.ChangedAt),
		FreshUntil:   wall.Add(max(left, -age)),
		UpstreamETag: rec.UpstreamETag, UpstreamLastModified: rec.UpstreamLastModified,
		Suspicions: rec.Suspicions,
	}
	if rec.Pinned() {
		doc.PinnedUntil, doc.PinnedBy = doc.FreshUntil, rec.PinnedBy
	}
	e = &entry[V]{doc: doc, fetchedAt: min(max(rec.FetchedAt, 0), rec.Now), source: rec.Source}
	switch {
	case same:
		doc.Body = prev.doc.Body
	case rec.Body != nil && ETag(rec.Body) == rec.ETag:
		doc.Body = rec.Body
	default:
		return nil, errors.New("the body does not match its etag")
	}
	if same && prev.doc.ChangedAt.Equal(doc.ChangedAt) {
		e.value = prev.value
		if prev.origin == originStored && prev.fetchedAt == rec.FetchedAt && prev.redisFresh == rec.FreshUntil && prev.doc.PinnedUntil.IsZero() == doc.PinnedUntil.IsZero() {
			e.doc = prev.doc // the same: its times on this clock must not jump by a round trip
		}
	} else {
		value, err := r.prepare(doc)
		if err != nil {
			return nil, err
		}
		e.value = value
	}
	e.setTimes(&r.o, now, age, left)
	return e, nil
}

// damage reports that Redis holds an unusable document.
func (r *Reader[V]) damage(etag string, err error) {
	if r.store.events.Damaged != nil {
		r.store.events.Damaged(r.key)
	}
	r.store.log.Error("redis holds an unusable document; fetching it again", "resource", r.key, "etag", etag, "error", err)
}
