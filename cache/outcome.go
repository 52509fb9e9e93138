package cache

import (
	"context"
	"errors"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// The outcomes of a load in [Events], beside those of a fill.
const (
	outcomeRenewed = "renewed"
	outcomeLost    = "lost"
	outcomeAlone   = "alone"
	outcomeFailed  = "failed"
	outcomeHeld    = "held"
)

// stored admits what Redis holds now.
func (r *Reader[V]) stored(f *flight[V], e *entry[V], wrote *lease.Filled) {
	outcome := string(wrote.Outcome)
	if wrote.Outcome == lease.Stored && f.renewed {
		outcome = outcomeRenewed
	}
	r.store.fetched(r.key, outcome, f.took, nil)
	e.doc.ChangedAt = time.UnixMilli(wrote.ChangedAt)
	e.place, e.redisFresh, e.fetchedAt = wrote.Place, wrote.FreshUntil, wrote.Now
	at := e.mark.At()
	if wrote.Outcome == lease.Soft { // purged softly at any time since the lease was taken
		at = f.began - r.store.watch.Trust() // who asked later may know of it
	}
	f.status.Stored = true
	r.loaded(f, e, at, ms(max(wrote.FreshUntil-wrote.Now, 0)))
}

// loaded admits a document that is fresh for so long, and ends the flight with it, for callers who
// asked before at.
func (r *Reader[V]) loaded(f *flight[V], e *entry[V], at, fresh time.Duration) {
	r.pause.Store(&pause{})
	r.voids = 0
	e.setTimes(&r.o, watch.Now(), 0, fresh)
	f.with(e, at, fresh)
	r.admit(e)
	r.see(false)
}

func (f *flight[V]) with(e *entry[V], at, fresh time.Duration) {
	wall := time.Now()
	e.doc.FetchedAt, e.doc.FreshUntil = wall, wall.Add(fresh)
	f.entry, f.at = e, at
}

// keep admits a document that Redis does not hold, with the place and the mark of before its load:
// a purge received since makes it void, and one received later withdraws it.
func (r *Reader[V]) keep(f *flight[V], e, before *entry[V]) {
	e.place, e.mark, e.redisFresh = before.place, before.mark, before.redisFresh
	if f.status.Detail = e.detail(linkLooked); r.watched.Unseen(&e.mark) {
		r.discard(f, e)
		return
	}
	r.store.fetched(r.key, outcomeAlone, f.took, nil)
	if at := r.knownChange(e.doc.ETag); at > 0 {
		e.doc.ChangedAt = time.UnixMilli(at)
	}
	e.fetchedAt = r.inRedis(f.began)
	r.loaded(f, e, f.began, r.o.freshness())
}

// discard ends the flight after a purge while the document was loaded. If that happens repeatedly,
// callers who asked before this load began get it: no purge that they could know of came after it.
func (r *Reader[V]) discard(f *flight[V], e *entry[V]) {
	r.store.fetched(r.key, outcomeLost, f.took, nil)
	f.void = true
	if r.voids++; r.voids > 1 && e != nil {
		f.with(e, f.began, 0)
	}
}

// giveUp records the failure, with the lease if there is one. A purge makes the load due again.
func (r *Reader[V]) giveUp(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], cause error) {
	r.store.fetched(r.key, outcomeFailed, f.took, cause)
	p := r.after(r.pause.Load().count, cause)
	if p.mark = held.mark; l.Token != "" { // else release tells of a purge
		p.mark = r.watched.Mark()
	}
	told := p
	if _, untried := errors.AsType[Untried](cause); untried { // another process may be able to, at once
		told = pause{}
		if before := r.pause.Load(); before.count > 0 {
			told = pause{count: before.count, length: time.Millisecond, err: before.err}
		}
	}
	outcome, err := r.release(ctx, l, told)
	switch {
	case watch.Replied(err):
		r.refuse("release", err)
		_, _ = r.release(ctx, l, pause{}) // nobody waits for it, then
	case err == nil && outcome != lease.Released:
		return
	} // otherwise the failure is this process's own
	r.failed(f, p)
}

// failed ends the flight with a failure, after which no load is tried for a while.
func (r *Reader[V]) failed(f *flight[V], p pause) {
	p.until = watch.Now() + p.length
	r.rest(p)
	f.err = &RetryError{After: p.length, Err: p.err}
}
