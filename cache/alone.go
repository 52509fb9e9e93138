package cache

import (
	"context"
	"time"

	"vitrine/cache/watch"
)

// loadRefused loads for this process only, while Redis is there and refuses a lease. What it holds
// is asked first: what is loaded is kept with that place.
func (r *Reader[V]) loadRefused(ctx context.Context, f *flight[V]) {
	before, err := r.ask(watch.Now())
	if err != nil {
		return // look again
	}
	r.loadFrom(ctx, f, before, originRefused)
}

// loadAlone loads for this process only, while Redis cannot be reached. What is loaded is kept with
// the place of the copy before, if there is one: nothing else is known.
func (r *Reader[V]) loadAlone(ctx context.Context, f *flight[V]) {
	before := &entry[V]{}
	if e := r.alone(); e != nil {
		copied := *e
		before = &copied
	} else if e := r.memory.Load(); e != nil {
		before.place, before.redisFresh = e.place, e.redisFresh // they are known, whatever became of the copy
	}
	before.mark = r.watched.Mark().Unread()
	r.loadFrom(ctx, f, before, originAlone)
}

// loadFrom loads what Redis does not get. The pause after a failure is this process's own.
func (r *Reader[V]) loadFrom(ctx context.Context, f *flight[V], before *entry[V], from origin) {
	now := watch.Now()
	if err := r.paused(now); err != nil {
		f.err = err
		return
	}
	var base *Document
	if before.holds(now) && before.source == r.o.Source {
		base = before.doc
	}
	e, err := r.load(ctx, f, base)
	switch {
	case r.store.ctx.Err() != nil:
		f.err = errClosed
	case err != nil:
		r.store.fetched(r.key, outcomeFailed, f.took, err)
		p := r.after(r.failures(), err)
		p.mark = before.mark
		r.failed(f, p)
	default:
		if o := r.objection(f, before, e); o != nil && r.holdAlone(f, r.heldPause(r.failures(), before, before.mark), o) {
			return
		}
		if at := r.knownChange(e.doc.ETag); at > 0 {
			e.doc.ChangedAt = time.UnixMilli(at)
		}
		e.origin = from
		r.keep(f, e, before)
	}
}

// keep admits a document that Redis does not hold, with the place and the mark of before its load:
// a purge received since makes it void, and one received later withdraws it.
func (r *Reader[V]) keep(f *flight[V], e, before *entry[V]) {
	e.place, e.mark, e.redisFresh = before.place, before.mark, before.redisFresh
	if f.status.Detail = e.detail(linkLooked); r.watched.Unseen(&e.mark) {
		r.refused(f, e)
		return
	}
	r.store.fetched(r.key, outcomeAlone, f.took, nil)
	e.fetchedAt = time.Now().UnixMilli() + r.skew.Load() - (watch.Now() - f.began).Milliseconds()
	r.loaded(f, e, f.began, r.o.freshness())
}
