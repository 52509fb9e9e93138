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
	if r.watched.Listening() {
		watch.Signal(r.wake)
	}
}

// attempt acquires the lease, loads and fills; or waits for the lease's holder; or, if Redis grants
// no lease, loads for this process alone.
func (r *Reader[V]) attempt(ctx context.Context, f *flight[V]) {
	if !r.watched.Up() {
		r.loadAlone(ctx, f, DetailRedisAway)
		return
	}
	select {
	case <-r.changed: // before acquire, so that no fill after it is missed
	default:
	}
	l, held, err := r.acquire(ctx)
	switch {
	case err != nil && r.store.ctx.Err() != nil:
		f.err = errClosed
	case watch.Replied(err):
		r.store.refuse("acquire", err)
		r.loadAlone(ctx, f, DetailRedisRefused)
	case l.Outcome == lease.Granted:
		r.store.accepted("acquire")
		r.fetch(ctx, f, l, held)
	case l.Outcome == lease.Failed:
		f.err = r.paused(watch.Now())
	case l.Outcome == lease.Held:
		f.elsewhere = true
		r.await(ctx, l.Left)
	} // otherwise Redis was not reached: look again
}

// await waits until the key changes or its lease expires. Without tracking it polls; a connection
// lost meanwhile counts as a change.
func (r *Reader[V]) await(ctx context.Context, left time.Duration) {
	left += time.Millisecond
	if !r.watched.Listening() {
		left = min(left, watch.Jitter(r.store.bound))
	}
	watch.Wait(ctx, r.changed, left)
}

// fetch loads under the lease and fills.
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V]) {
	var base *Document // what NotModified would renew: the document that Redis holds
	if held.doc != nil && l.Holds() && held.doc.ETag == l.ETag && l.Source == r.o.Source {
		base = held.doc
	}
	loading, end := r.guard(ctx, f, l)
	defer end(nil)
	e, err := r.load(loading, f, base)
	switch {
	case r.store.ctx.Err() != nil:
		_, _, _ = r.release(ctx, l, lease.Word{})
		f.err = errClosed
		return
	case err != nil && errors.Is(context.Cause(loading), errVoid):
		r.refused(f, nil)
		_, _, _ = r.release(ctx, l, lease.Word{})
		return
	case err != nil:
		r.giveUp(ctx, f, l, held, err)
		return
	}
	filling := lease.Document{
		Source: r.o.Source, ETag: e.doc.ETag, Body: e.doc.Body, TTL: r.o.freshness(), Window: r.o.window(),
		UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified, ChangedAt: r.knownChange(e.doc.ETag),
	}
	if f.renewed {
		filling.Body = nil
	}
	wrote, mark, err := r.fill(ctx, l, filling)
	e.mark = mark
	if err == nil && wrote.Outcome != lease.Lost {
		r.store.accepted("fill")
		e.filled = l.Token
		r.stored(f, e, &wrote, l.Dataset)
		return
	}
	outcome := wrote.Outcome
	if err != nil {
		// A lease may fit where the document does not: hand it back, so that the others need not
		// wait.
		var back error
		outcome, mark, back = r.release(ctx, l, lease.Word{Keep: r.o.TTL + r.o.window()})
		e.redis, e.mark, e.detail = held.redis, mark, DetailRedisRefused
		switch {
		case watch.Replied(back):
			e.mark = held.mark
		case back != nil:
			e.mark, e.detail = held.mark.Unread(), DetailRedisAway
		}
	}
	switch {
	case err != nil && r.store.ctx.Err() != nil: // if anything of it was written, it is complete
		f.err = errClosed
	case outcome == lease.Lost: // purged while it was loaded, or stored without a reply
		r.refused(f, e)
	default:
		if e.detail == DetailRedisRefused {
			r.store.refuse("fill", err)
		}
		r.keep(f, e)
	}
}

// stored admits what Redis holds now.
func (r *Reader[V]) stored(f *flight[V], e *entry[V], wrote *lease.Filled, dataset string) {
	outcome := string(wrote.Outcome)
	if wrote.Outcome == lease.Stored && f.renewed {
		outcome = outcomeRenewed
	}
	r.store.fetched(r.key, outcome, f.took, nil)
	e.doc.ChangedAt = time.UnixMilli(wrote.ChangedAt)
	e.redis = held{etag: e.doc.ETag, fetchedAt: wrote.Now, freshUntil: wrote.FreshUntil, dataset: dataset, run: r.watched.Run()}
	at := e.mark.At()
	if wrote.Outcome == lease.Soft { // purged softly at any time since the lease was taken
		at = f.began
	}
	f.status.Stored = true
	r.loaded(f, e, at, time.Duration(max(wrote.FreshUntil-wrote.Now, 0))*time.Millisecond, wrote.Now)
}

// loaded admits a document that is fresh for so long, and ends the flight with it, for callers who
// asked before at.
func (r *Reader[V]) loaded(f *flight[V], e *entry[V], at, fresh time.Duration, fetched int64) {
	r.pause.Store(nil)
	r.voids = 0
	e.fetchedAt = fetched
	e.setTimes(&r.o, watch.Now(), 0, fresh)
	f.with(e, at, fresh)
	r.admit(e)
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

// giveUp records the failure with the lease, and puts back what Redis has lost. A purge received
// meanwhile makes the load due again.
func (r *Reader[V]) giveUp(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], cause error) {
	word := lease.Word{Failure: lease.Failure{Code: r.o.ErrorCode(cause)}}
	word.Failure.Count, word.Pause = r.penalty(l.Failure.Count, cause)
	r.store.fetched(r.key, outcomeFailed, f.took, cause)
	alone := word
	if held.lostOnly() && !r.watched.Flushed(&held.mark) {
		word.Keep = held.servableUntil - watch.Now()
		word.Lost = &lease.Document{
			Source: held.source, ETag: held.doc.ETag, Body: held.doc.Body, UpstreamETag: held.doc.UpstreamETag,
			UpstreamLastModified: held.doc.UpstreamLastModified, FetchedAt: held.fetchedAt, ChangedAt: held.doc.ChangedAt.UnixMilli(),
		}
	}
	outcome, mark, err := r.release(ctx, l, word)
	if watch.Replied(err) && word.Lost != nil {
		r.store.refuse("restore", err)
		outcome, mark, err = r.release(ctx, l, alone)
	}
	switch {
	case watch.Replied(err):
		r.store.refuse("release", err)
		_, mark, _ = r.release(ctx, l, lease.Word{}) // nobody waits for it, then
	case err != nil: // the failure is this process's own
	case outcome != lease.Released:
		return
	default:
		r.vouch(held, f.began, mark)
	}
	r.failed(f, word.Failure.Count, word.Pause, mark, cause)
}

// failed ends the flight with a failure, after which no load is tried for a while.
func (r *Reader[V]) failed(f *flight[V], count int, wait time.Duration, mark watch.Mark, cause error) {
	r.pause.Store(&pause{count: count, until: watch.Now() + wait, err: cause, mark: mark})
	f.err = &RetryError{After: wait, Err: cause}
}

// vouch renews the mark of what was found when the lease was taken, or after that, once a release
// has shown that nothing was purged while it lasted.
func (r *Reader[V]) vouch(held *entry[V], since time.Duration, mark watch.Mark) {
	if e := r.memory.Load(); e == held || e != nil && e.mark.At() > since && e.mark.At() < mark.At() {
		renewed := *e
		renewed.mark = mark
		r.memory.CompareAndSwap(e, &renewed)
	}
}

// loadAlone loads for this process only, while Redis is unreachable or refuses a lease. The pause
// after a failure is this process's own.
func (r *Reader[V]) loadAlone(ctx context.Context, f *flight[V], detail string) {
	began, before, prev := watch.Now(), r.watched.Mark().Unread(), r.memory.Load()
	if err := r.paused(began); err != nil {
		f.err = err
		return
	}
	if detail == DetailRedisRefused { // it can be asked what it holds: see untouched
		var err error
		if prev, err = r.ask(began); err != nil {
			return // look again
		}
		began, before = watch.Now(), prev.mark
	}
	var base *Document
	if prev.holds(began) && !r.unexplained(prev) && prev.source == r.o.Source {
		base = prev.doc
	}
	e, err := r.load(ctx, f, base)
	if r.store.ctx.Err() != nil {
		f.err = errClosed
		return
	}
	if err != nil {
		r.store.fetched(r.key, outcomeFailed, f.took, err)
		count := 0
		if p := r.pause.Load(); p != nil {
			count = p.count
		}
		count, wait := r.penalty(count, err)
		r.failed(f, count, wait, before, err)
		return
	}
	if at := r.knownChange(e.doc.ETag); at > 0 {
		e.doc.ChangedAt = time.UnixMilli(at)
	}
	e.mark, e.detail, e.redis.run = before, detail, r.watched.Run()
	if prev != nil {
		e.redis = prev.redis
	}
	r.keep(f, e)
}

// keep admits a document that Redis does not hold, with a mark from before its load: a purge
// received since makes it void, and one received later withdraws it.
func (r *Reader[V]) keep(f *flight[V], e *entry[V]) {
	f.status.Detail = e.detail
	// A look that was made meanwhile, at another process, knows of what was purged there.
	cur := r.memory.Load()
	if r.watched.Withdrawn(&e.mark) || cur != nil && cur.redis.run != e.redis.run {
		r.refused(f, e)
		return
	}
	r.store.fetched(r.key, outcomeAlone, f.took, nil)
	e.unstored = true
	r.loaded(f, e, f.began, r.o.freshness(), time.Now().UnixMilli()+r.skew.Load())
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
