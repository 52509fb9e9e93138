package cache

import (
	"context"
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
	// at is the time before which a caller must have asked to get entry: no purge acknowledged
	// before it is later than entry's fetch.
	at        time.Duration
	status    Status
	elsewhere bool // another process had the lease
	void      bool // a hard purge came while it was loaded
	err       error
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
		ctx, cancel := context.WithTimeout(valued{Context: r.store.ctx, values: values}, r.patience())
		defer cancel()
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
		r.wakeAttendant()
	}
}

// attempt acquires the lease, loads and fills; or waits for the lease's holder; or, if Redis grants
// no lease, loads for this process alone.
func (r *Reader[V]) attempt(ctx context.Context, f *flight[V]) {
	if !r.watched.Up() {
		r.loadAlone(ctx, f, DetailRedisAway)
		return
	}
	changed := r.nextChange() // before acquire, so that no fill after it is missed
	l, err := r.acquire(ctx)
	switch {
	case err != nil && r.store.ctx.Err() != nil:
		f.err = errClosed
	case watch.Replied(err):
		r.store.refuse("acquire", err)
		r.loadAlone(ctx, f, DetailRedisRefused)
	case err != nil:
		r.watched.Fail(err)
	case l.Outcome == lease.Granted:
		r.store.accepted("acquire")
		r.fetch(ctx, f, l)
	case l.Outcome == lease.Failed:
		err := r.o.CodeError(l.Failure.Code)
		r.pause.Store(&pause{count: l.Failure.Count, until: watch.Now() + l.Left, err: err, mark: r.watched.Mark()})
		f.err = &RetryError{After: l.Left, Err: err}
	case l.Outcome == lease.Held:
		f.elsewhere = true
		r.await(ctx, changed, l.Left)
	}
	if f.err != nil {
		r.restore()
	}
}

// await waits until the key changes or its lease expires. Without tracking it polls; a connection
// lost meanwhile counts as a change.
func (r *Reader[V]) await(ctx context.Context, changed <-chan struct{}, left time.Duration) {
	left += time.Millisecond
	if !r.watched.Listening() {
		left = min(left, watch.Jitter(r.store.bound))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// fetch loads under the lease and fills.
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], l lease.Lease) {
	prev := r.memory.Load()
	var base *Document // what NotModified would renew: the document that Redis holds
	if prev != nil && prev.doc != nil && l.ETag != "" && prev.doc.ETag == l.ETag && l.Source == r.o.Source {
		base = prev.doc
	}
	began, before, run := watch.Now(), r.watched.Mark(), r.watched.Run()
	loading, unguard := r.guard(ctx, l)
	loaded, doc, value, err := r.load(loading, base)
	void := unguard()
	took := watch.Now() - began
	switch {
	case r.store.ctx.Err() != nil:
		_ = r.handBack(ctx, l, 0)
		f.err = errClosed
		return
	case err != nil && void:
		r.voided(took)
		_ = r.handBack(ctx, l, 0)
		f.void = true
		return
	case err != nil:
		r.giveUp(ctx, f, l, err, took)
		return
	}
	filling := lease.Document{
		Source: r.o.Source, ETag: doc.ETag, Body: doc.Body, TTL: r.o.freshness(), Window: r.o.window(),
		UpstreamETag: doc.UpstreamETag, UpstreamLastModified: doc.UpstreamLastModified, ChangedAt: r.knownChange(doc.ETag),
	}
	if loaded.NotModified {
		filling.Body = nil
	}
	mark := r.watched.Mark()
	wrote, err := r.fill(ctx, l, filling)
	e := &entry[V]{doc: doc, value: value, mark: mark, detail: DetailMemory, source: r.o.Source}
	switch {
	case err != nil && r.store.ctx.Err() != nil: // if anything of it was written, it is complete
		_ = r.handBack(ctx, l, 0)
		f.err = errClosed
	case err != nil:
		// A lease may fit where the document does not: hand it back, so that the others need not
		// wait.
		took = watch.Now() - began
		if back := r.handBack(ctx, l, r.o.TTL+r.o.window()); back != nil && !watch.Replied(back) {
			r.watched.Fail(err)
			before = before.Unread()
			e.detail = DetailRedisAway
		} else {
			r.store.refuse("fill", err)
			e.detail = DetailRedisRefused
		}
		if prev != nil {
			e.redis = prev.redis
		}
		e.redis.run, e.redis.dataset, e.redis.vacant = run, l.Dataset, l.Vacant // where the lease was
		r.keep(f, e, before, prev, began, took)
		f.status.FwdStatus = loaded.Status
	case wrote.Outcome == lease.Lost:
		// Purged while it was loaded. If that happens repeatedly, callers who asked before this
		// load began get it: no purge that they could know of came after it.
		if r.voided(took) {
			e.setTimes(&r.o, watch.Now(), 0, r.o.TTL)
			doc.FetchedAt, doc.FreshUntil = time.Now(), time.Now()
			f.entry, f.at, f.status = e, began, Status{FwdStatus: loaded.Status}
		}
		f.void = true
	default:
		r.store.accepted("fill")
		r.stored(f, e, &wrote, l, loaded, base, took)
	}
}

// stored admits what Redis holds now.
func (r *Reader[V]) stored(f *flight[V], e *entry[V], wrote *lease.Filled, l lease.Lease, loaded Loaded, base *Document, took time.Duration) {
	outcome := string(wrote.Outcome)
	if wrote.Outcome == lease.Stored && loaded.NotModified {
		outcome = outcomeRenewed
	}
	r.store.fetched(r.key, outcome, took, nil)
	r.pause.Store(nil)
	r.mu.Lock()
	r.voids = 0
	r.mu.Unlock()
	left := time.Duration(max(wrote.FreshUntil-wrote.Now, 0)) * time.Millisecond
	wall, now := time.Now(), watch.Now()
	e.doc.FetchedAt, e.doc.ChangedAt, e.doc.FreshUntil = wall, time.UnixMilli(wrote.ChangedAt), wall.Add(left)
	if base != nil && loaded.NotModified {
		e.doc.ChangedAt = base.ChangedAt
	}
	e.fetchedAt = wrote.Now
	e.redis = held{etag: e.doc.ETag, fetchedAt: wrote.Now, freshUntil: wrote.FreshUntil, dataset: l.Dataset, run: r.watched.Run()}
	e.setTimes(&r.o, now, 0, left)
	r.admit(e)
	f.entry, f.at, f.status = e, e.mark.At(), Status{FwdStatus: loaded.Status, Stored: true}
	if wrote.Outcome == lease.Soft { // purged softly at any time since the load began
		f.at -= took
	}
}

// giveUp records the failure with the lease. A purge received meanwhile makes the load due again.
func (r *Reader[V]) giveUp(ctx context.Context, f *flight[V], l lease.Lease, cause error, took time.Duration) {
	word := lease.Failure{Count: l.Failure.Count + 1, Code: r.o.ErrorCode(cause)}
	wait := r.backoff(word.Count)
	r.store.fetched(r.key, outcomeFailed, took, cause)
	outcome, err := r.release(ctx, l, word, wait, 0)
	switch {
	case watch.Replied(err):
		r.store.refuse("release", err)
		_ = r.handBack(ctx, l, 0) // nobody waits for it, then
	case err != nil:
		r.watched.Fail(err)
	case outcome != lease.Released:
		return
	}
	r.pause.Store(&pause{count: word.Count, until: watch.Now() + wait, err: cause, mark: r.watched.Mark()})
	f.err = &RetryError{After: wait, Err: cause}
}

// loadAlone loads for this process only, while Redis is unreachable or refuses a lease. The pause
// after a failure is this process's own.
func (r *Reader[V]) loadAlone(ctx context.Context, f *flight[V], detail string) {
	began, before, prev := watch.Now(), r.watched.Unread(), r.memory.Load()
	if detail == DetailRedisRefused {
		before = r.watched.Mark()
	}
	if err := r.paused(began); err != nil {
		f.err = err
		return
	}
	var base *Document
	if prev.holds(began) && !r.watched.Withdrawn(&prev.mark) && prev.source == r.o.Source {
		base = prev.doc
	}
	loaded, doc, value, err := r.load(ctx, base)
	took := watch.Now() - began
	if r.store.ctx.Err() != nil {
		f.err = errClosed
		return
	}
	if err != nil {
		r.store.fetched(r.key, outcomeFailed, took, err)
		count := 1
		if p := r.pause.Load(); p != nil {
			count += p.count
		}
		wait := r.backoff(count)
		r.pause.Store(&pause{count: count, until: watch.Now() + wait, err: err, mark: before})
		f.err = &RetryError{After: wait, Err: err}
		return
	}
	if at := r.knownChange(doc.ETag); at > 0 {
		doc.ChangedAt = time.UnixMilli(at)
	}
	e := &entry[V]{doc: doc, value: value, detail: detail, source: r.o.Source}
	r.keep(f, e, before, prev, began, took)
	f.status.FwdStatus = loaded.Status
}

// keep admits a document that Redis does not hold, with the mark from before its load: a purge
// received meanwhile makes it void, and one received later withdraws it.
func (r *Reader[V]) keep(f *flight[V], e *entry[V], before watch.Mark, prev *entry[V], began, took time.Duration) {
	if r.watched.Withdrawn(&before) {
		r.store.fetched(r.key, outcomeLost, took, nil)
		return // look again
	}
	r.store.fetched(r.key, outcomeAlone, took, nil)
	r.pause.Store(nil)
	wall, now, fresh := time.Now(), watch.Now(), r.o.freshness()
	e.doc.FetchedAt, e.doc.FreshUntil = wall, wall.Add(fresh)
	e.mark, e.unstored, e.fetchedAt = before, true, wall.UnixMilli()+r.skew.Load()
	switch {
	case e.redis.run != "":
	case prev != nil:
		e.redis = prev.redis
	default:
		e.redis = held{run: r.watched.Run()}
	}
	e.setTimes(&r.o, now, 0, fresh)
	r.admit(e)
	f.entry, f.at, f.status = e, began, Status{Detail: e.detail}
}

// refresh starts a flight that nobody waits for, unless another process is known to have the lease,
// or all pause after a failure. It is called on every read of a due document, and is cheap.
func (r *Reader[V]) refresh(ctx context.Context) {
	now := watch.Now()
	next := r.nextAsk.Load()
	if int64(now) < next || !r.nextAsk.CompareAndSwap(next, int64(now+askPause)) {
		return
	}
	if e := r.memory.Load(); e != nil && now < e.leasedUntil && r.watched.Trusts(&e.mark, now) || r.paused(now) != nil {
		return
	}
	r.fly(ctx)
}

// askPause is the minimum time between two reads that ask for a refresh.
const askPause = 20 * time.Millisecond
