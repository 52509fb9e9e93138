package cache

import (
	"context"
	"errors"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// flight is one attempt to get a document, shared by every caller in this process that waits for
// it. It runs on the store's context and keeps only the values of the context it was started with,
// so that a caller who gives up does not end it for the others.
type flight[V any] struct {
	done chan struct{} // closed at the end, after the fields below are set

	entry *entry[V] // nil: look again
	// at is the time before which a caller must have asked to get entry, or within the trust after
	// it if no change was received since entry's mark: no purge acknowledged before it is later
	// than entry's fetch.
	at        time.Duration
	status    Status
	elsewhere bool // another process had the lease
	void      bool // a hard purge came while it was loaded
	err       error

	began, took time.Duration // of its load
	renewed     bool          // the document that Redis holds is current
	replaced    *Document     // what was held before it, or nil

	// Guarded by the reader's mutex: the lease that Redis had when since came, and what ends the load
	// under it (see guard).
	token string
	since time.Duration
	end   context.CancelCauseFunc
}

// fly joins the current flight, or starts one.
func (r *Reader[V]) fly(starter context.Context) (f *flight[V], joined bool) {
	r.mu.Lock()
	if f = r.flight; f != nil {
		r.mu.Unlock()
		return f, true
	}
	f = &flight[V]{done: make(chan struct{})}
	r.flight = f
	r.mu.Unlock()
	values := lend(starter) // here, while the starter is in its call
	run := func() {
		ctx, cancel := context.WithTimeout(values, r.patience())
		defer cancel()
		stop := context.AfterFunc(r.store.ctx, cancel)
		defer stop()
		r.attempt(ctx, f)
		r.land(f)
		if f.status.Stored {
			r.remember(r.store.ctx, f.entry, f.replaced)
		}
	}
	if !r.store.goTask(run) {
		f.err = errClosed
		r.land(f)
	}
	return f, false
}

// land ends the flight. A soft purge that arrived after the fill had no flight of its own, so wake
// the attendant to check. Without tracking there is nothing to check.
func (r *Reader[V]) land(f *flight[V]) {
	r.mu.Lock()
	r.flight = nil
	r.mu.Unlock()
	close(f.done)
	if r.watched.Listening() || r.o.Always {
		watch.Signal(r.wake)
	}
}

// attempt acquires the lease, loads and fills; or waits for the lease's holder; or, if Redis grants
// no lease, loads for this process alone.
func (r *Reader[V]) attempt(ctx context.Context, f *flight[V]) {
	if !r.watched.Up() {
		r.loadAlone(ctx, f)
		return
	}
	select {
	case <-r.changed: // before acquire, so that no fill after it is missed
	default:
	}
	if cause := r.o.Unable(); cause != nil {
		r.leave(ctx, f, cause)
		return
	}
	l, held, err := r.acquire(ctx)
	switch {
	case err != nil && r.store.ctx.Err() != nil:
		f.err = errClosed
	case watch.Replied(err):
		r.refuse("acquire", err)
		r.loadRefused(ctx, f)
	case l.Outcome == lease.Granted:
		r.accepted("acquire")
		r.fetch(ctx, f, l, held)
	case l.Outcome == lease.Failed:
		f.err = r.paused(watch.Now())
	case l.Outcome == lease.Held:
		f.elsewhere = true
		r.await(ctx, l.Left)
	} // otherwise Redis was not reached: look again
}

// await waits until a key changes or the lease expires; a connection that is lost counts as a
// change. It ends earlier for another look, since Redis may refuse by now to have the lease back,
// and without tracking announces nothing.
func (r *Reader[V]) await(ctx context.Context, left time.Duration) {
	left = min(left+time.Millisecond, leaseMargin)
	if !r.watched.Listening() {
		left = min(left, watch.Jitter(r.store.bound))
	}
	watch.Wait(ctx, r.changed, left)
}

// retryPause is how often a process that cannot load asks whether another is loading, and how often
// the attendant asks for a document that is due.
const retryPause = 100 * time.Millisecond

// wantLasts is for how long a process that cannot load wants another to. Without tracking these
// notice when they sample.
const wantLasts = samplePause + time.Second

// leave leaves the load to other processes, and waits for one that has the lease. If none has, it
// asks them to load, unless they pause after a failure: nobody may be reading there.
func (r *Reader[V]) leave(ctx context.Context, f *flight[V], cause error) {
	rec, err := r.read(r.memory.Load().etag())
	switch {
	case err != nil: // look again
	case rec.Lease != "" && rec.Failure.Count == 0 && rec.Left > 0:
		f.elsewhere = true
		r.await(ctx, rec.Left)
	case rec.Left == 0 && rec.Wanted == 0 && r.want(ctx, &rec):
		watch.Sleep(ctx, r.store.bound) // until then they have received that
	default:
		p := r.after(rec.Failure.Count, cause)
		p.mark = r.watched.Mark()
		r.failed(f, p)
		p.until = watch.Now() + min(p.length, retryPause)
		r.pause.Store(&p)
	}
}

// fetch loads under the lease and fills.
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V]) {
	var base *Document // what NotModified would renew: the document that Redis holds
	if held.doc != nil && l.Holds == lease.Document && held.doc.ETag == l.ETag && l.Source == r.o.Source {
		base = held.doc
	}
	loading, end := r.guard(ctx, f, l)
	defer end(nil)
	e, err := r.load(loading, f, base)
	switch {
	case r.store.ctx.Err() != nil:
		_, _ = r.release(ctx, l, pause{})
		f.err = errClosed
		return
	case err != nil && errors.Is(context.Cause(loading), errVoid):
		r.refused(f, nil)
		_, _ = r.release(ctx, l, pause{})
		return
	case err != nil:
		r.giveUp(ctx, f, l, err)
		return
	}
	f.replaced = held.doc
	if o := r.objection(f, held, e); o != nil && r.holdBack(ctx, f, l, held, o) {
		return
	}
	filling := lease.Filling{
		Source: r.o.Source, ETag: e.doc.ETag, Body: e.doc.Body, TTL: r.o.freshness(),
		UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified, ChangedAt: r.knownChange(e.doc.ETag),
		Suspicions: e.doc.Suspicions,
	}
	if f.renewed {
		filling.Body = nil
	}
	wrote, mark, err := r.fill(ctx, l, filling)
	switch {
	case err == nil && wrote.Outcome == lease.Lost: // purged while it was loaded
		r.refused(f, e)
		return
	case err == nil:
		r.accepted("fill")
		e.mark = mark
		r.stored(f, e, &wrote)
		return
	case r.store.ctx.Err() != nil: // if anything of it was written, it is complete
		f.err = errClosed
		return
	}
	e.origin = originAlone
	if watch.Replied(err) {
		e.origin = originRefused
		r.refuse("fill", err)
	}
	// A lease may fit where the document does not: hand it back, so that the others need not wait.
	if back, err := r.release(ctx, l, pause{}); err == nil && back == lease.Lost { // purged, or stored without a reply
		r.refused(f, e)
		return
	}
	r.keep(f, e, held)
}

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
	r.pause.Store(nil)
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

// refused ends the flight after a purge while the document was loaded. If that happens repeatedly,
// callers who asked before this load began get it: no purge that they could know of came after it.
func (r *Reader[V]) refused(f *flight[V], e *entry[V]) {
	r.store.fetched(r.key, outcomeLost, f.took, nil)
	f.void = true
	if r.voids++; r.voids > 1 && e != nil {
		f.with(e, f.began, 0)
	}
}

// giveUp records the failure with the lease. A purge makes the load due again.
func (r *Reader[V]) giveUp(ctx context.Context, f *flight[V], l lease.Lease, cause error) {
	r.store.fetched(r.key, outcomeFailed, f.took, cause)
	p := r.after(l.Failure.Count, cause)
	p.mark = r.watched.Mark()
	told := p
	if _, untried := errors.AsType[Untried](cause); untried { // another process may be able to, at once
		told = pause{count: l.Failure.Count}
		if told.count > 0 {
			told.length, told.err = time.Millisecond, r.o.CodeError(l.Failure.Code)
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

// rest has no load tried until the pause is over.
func (r *Reader[V]) rest(p pause) {
	r.pause.Store(&p)
	r.see(false)
}

// refresh starts a flight that nobody waits for, unless all pause after a failure. It is called on
// every read of a due document, and is cheap.
func (r *Reader[V]) refresh(ctx context.Context) {
	now := watch.Now()
	next := r.nextAsk.Load()
	if int64(now) < next || !r.nextAsk.CompareAndSwap(next, int64(now+askPause)) {
		return
	}
	if r.paused(now) == nil {
		r.fly(ctx)
	}
}

// askPause is the minimum time between two reads that ask for a refresh.
const askPause = 20 * time.Millisecond

// errVoid ends a load whose fill would be refused.
var errVoid = errors.New("purged while it was fetched")

// guard lets a look that finds the lease gone end the load that is made under it, so that a purge
// during a slow fetch does not wait for what nobody may have, and the CMS is not asked twice at
// once for longer than it takes to receive it. But loads are not thrown away faster than they can
// end: one that follows another void one goes on.
func (r *Reader[V]) guard(ctx context.Context, f *flight[V], l lease.Lease) (loading context.Context, end context.CancelCauseFunc) {
	loading, end = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.voids == 0 {
		f.token, f.since, f.end = l.Token, watch.Now(), end
	}
	return loading, end
}

// void ends the current load if a look that began then, after its lease was taken, shows that its
// fill would be refused, after a hard purge. With a soft purge the document is stored as stale.
func (r *Reader[V]) void(rec *lease.Record, began time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flight; f != nil && f.end != nil && began > f.since && rec.Lease != f.token {
		f.end(errVoid)
	}
}
