package cache

import (
	"context"
	"errors"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

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
	case err != nil: // Redis was not reached, or what became of the copy is unknown: look again
	case l.Outcome == lease.Granted:
		r.accepted("acquire")
		r.fetch(ctx, f, l, held, originStored)
	case l.Outcome == lease.Fresh:
		f.found = held
	case l.Outcome == lease.Failed:
		f.err = r.declined(watch.Now())
	case l.Outcome == lease.Held:
		f.elsewhere = true
		r.await(ctx, l.Left)
	}
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

// leave leaves the load to other processes, and waits for one that has the lease. If none has, it
// asks them to load, unless they pause after a failure: nobody may be reading there.
func (r *Reader[V]) leave(ctx context.Context, f *flight[V], cause error) {
	rec, err := r.read(r.memory.Load().etag())
	switch {
	case err != nil: // look again
	case rec.Lease != "" && rec.Failure.Count == 0 && rec.Left > 0:
		r.giveBackLeftover(&rec)
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

// fetch loads, and fills under the lease. What Redis does not get is kept with the place and the
// mark of held. Without a lease, which is the zero value, it loads for this process alone: the pause
// after a failure is this process's own, and what is kept is of that origin.
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], alone origin) {
	if now := watch.Now(); l.Token == "" {
		if held.standing(now) == copyFresh { // loaded since the copy was seen that was due
			f.found = held
			return
		}
		if f.err = r.paused(now); f.err != nil {
			return
		}
	}
	loading, end := r.guard(ctx, f, l)
	defer end(nil)
	var base *Document // what NotModified would renew
	if held.source == r.o.Source {
		base = held.doc
	}
	e, err := r.load(loading, f, base)
	switch {
	case r.store.ctx.Err() != nil:
		_, _ = r.release(ctx, l, pause{})
		f.err = errClosed
		return
	case err != nil && errors.Is(context.Cause(loading), errVoid):
		r.discard(f, nil)
		_, _ = r.release(ctx, l, pause{})
		return
	case err != nil:
		r.giveUp(ctx, f, l, held, err)
		return
	}
	f.replaced = held.doc
	if o := r.objection(f, held, e); o != nil && r.holdBack(ctx, f, l, held, o) {
		return
	}
	if l.Token == "" {
		e.origin = alone
	} else if r.filled(ctx, f, l, e) {
		return
	}
	r.keep(f, e, held)
}

// filled fills, and reports false if the document is to be kept, since Redis was not reached or
// refuses it.
func (r *Reader[V]) filled(ctx context.Context, f *flight[V], l lease.Lease, e *entry[V]) bool {
	filling := lease.Filling{
		Source: r.o.Source, ETag: e.doc.ETag, Body: e.doc.Body, TTL: r.o.freshness(),
		UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified, ChangedAt: r.knownChange(e.doc.ETag),
		Suspicions: e.doc.Suspicions,
	}
	if f.renewed = f.renewed && l.Holds == lease.Document && l.ETag == e.doc.ETag; f.renewed {
		filling.Body = nil
	}
	wrote, mark, err := r.fill(ctx, l, filling)
	switch {
	case err == nil && wrote.Outcome == lease.Lost: // purged while it was loaded
		r.discard(f, e)
		return true
	case err == nil:
		r.accepted("fill")
		e.mark = mark
		r.stored(f, e, &wrote)
		return true
	case r.store.ctx.Err() != nil: // if anything of it was written, it is complete
		f.err = errClosed
		return true
	}
	e.origin = originAlone
	if watch.Replied(err) {
		e.origin = originRefused
		r.refuse("fill", err)
	}
	// A lease may fit where the document does not: hand it back, so that the others need not wait.
	if back, err := r.release(ctx, l, pause{}); err == nil && back == lease.Lost { // purged, or stored without a reply
		r.discard(f, e)
		return true
	}
	return false
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

// loadRefused loads for this process only, while Redis is there and refuses a lease. What it holds
// is asked first: what is loaded is kept with that place.
func (r *Reader[V]) loadRefused(ctx context.Context, f *flight[V]) {
	before, err := r.ask(watch.Now())
	if err != nil {
		return // look again
	}
	r.fetch(ctx, f, lease.Lease{}, before, originRefused)
}

// loadAlone loads for this process only, while Redis cannot be reached. What is loaded is kept with
// the place of the copy before, if there is one: nothing else is known.
func (r *Reader[V]) loadAlone(ctx context.Context, f *flight[V]) {
	before := *r.alone()
	before.mark = r.watched.Mark().Unread()
	r.fetch(ctx, f, lease.Lease{}, &before, originAlone)
}
