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
	l, held, err := r.acquire(ctx)
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
		r.fetch(ctx, f, l, held)
	case l.Outcome == lease.Failed:
		f.err = r.paused(watch.Now())
	case l.Outcome == lease.Held:
		f.elsewhere = true
		r.await(ctx, changed, l.Left)
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
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V]) {
	var base *Document // what NotModified would renew: the document that Redis holds
	if held.doc != nil && l.Holds() && held.doc.ETag == l.ETag && l.Source == r.o.Source {
		base = held.doc
	}
	began := watch.Now()
	loading, unguard := r.guard(ctx, l)
	loaded, doc, value, err := r.load(loading, base)
	void := unguard()
	took := watch.Now() - began
	switch {
	case r.store.ctx.Err() != nil:
		_, _, _ = r.release(ctx, l, lease.Word{})
		f.err = errClosed
		return
	case err != nil && void:
		r.voided(took)
		_, _, _ = r.release(ctx, l, lease.Word{})
		f.void = true
		return
	case err != nil:
		r.giveUp(ctx, f, l, held, began, err)
		return
	}
	filling := lease.Document{
		Source: r.o.Source, ETag: doc.ETag, Body: doc.Body, TTL: r.o.freshness(), Window: r.o.window(),
		UpstreamETag: doc.UpstreamETag, UpstreamLastModified: doc.UpstreamLastModified, ChangedAt: r.knownChange(doc.ETag),
	}
	if loaded.NotModified {
		filling.Body = nil
	}
	wrote, mark, err := r.fill(ctx, l, filling)
	e := &entry[V]{doc: doc, value: value, mark: mark, detail: DetailMemory, source: r.o.Source}
	switch {
	case err != nil && r.store.ctx.Err() != nil: // if anything of it was written, it is complete
		_, _, _ = r.release(ctx, l, lease.Word{})
		f.err = errClosed
	case err != nil:
		// A lease may fit where the document does not: hand it back, so that the others need not
		// wait.
		outcome, after, back := r.release(ctx, l, lease.Word{Keep: r.o.TTL + r.o.window()})
		e.redis, e.mark, e.detail = held.redis, held.mark, DetailRedisRefused
		switch {
		case back == nil && outcome == lease.Lost: // purged while it was loaded, or stored without a reply
			f.void = true
			return
		case back == nil:
			e.mark = after
			r.store.refuse("fill", err)
		case watch.Replied(back):
			r.store.refuse("fill", err)
		default:
			r.watched.Fail(err)
			e.mark, e.detail = held.mark.Unread(), DetailRedisAway
		}
		r.keep(f, e, began, loaded.Status)
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
		r.stored(f, e, &wrote, l, loaded, base, began, took)
	}
}

// stored admits what Redis holds now.
func (r *Reader[V]) stored(f *flight[V], e *entry[V], wrote *lease.Filled, l lease.Lease, loaded Loaded, base *Document, began, took time.Duration) {
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
	if wrote.Outcome == lease.Soft { // purged softly at any time since the lease was taken
		f.at = began
	}
}

// giveUp records the failure with the lease, and puts back what Redis has lost. A purge received
// meanwhile makes the load due again.
func (r *Reader[V]) giveUp(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], began time.Duration, cause error) {
	word := lease.Word{Failure: lease.Failure{Count: l.Failure.Count + 1, Code: r.o.ErrorCode(cause)}}
	word.Pause = r.backoff(word.Failure.Count)
	r.store.fetched(r.key, outcomeFailed, watch.Now()-began, cause)
	alone := word
	if held.lostOnly() {
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
	case err != nil:
		r.watched.Fail(err)
	case outcome != lease.Released:
		return
	default:
		r.vouch(held, began, mark)
	}
	r.pause.Store(&pause{count: word.Failure.Count, until: watch.Now() + word.Pause, err: cause, mark: mark})
	f.err = &RetryError{After: word.Pause, Err: cause}
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
	began, before, prev := watch.Now(), r.watched.Unread(), r.memory.Load()
	if err := r.paused(began); err != nil {
		f.err = err
		return
	}
	if detail == DetailRedisRefused { // it can be asked what it holds: see untouched
		var err error
		if prev, err = r.ask(began); err != nil {
			r.watched.Fail(err)
			return // look again
		}
		began, before = watch.Now(), prev.mark
	}
	var base *Document
	if prev.holds(began) && !r.watched.Withdrawn(&prev.mark) && prev.source == r.o.Source {
		base = prev.doc
	}
	loaded, doc, value, err := r.load(ctx, base)
	if r.store.ctx.Err() != nil {
		f.err = errClosed
		return
	}
	if err != nil {
		r.store.fetched(r.key, outcomeFailed, watch.Now()-began, err)
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
	e := &entry[V]{doc: doc, value: value, mark: before, detail: detail, source: r.o.Source, redis: held{run: r.watched.Run()}}
	if prev != nil {
		e.redis = prev.redis
	}
	r.keep(f, e, began, loaded.Status)
}

// keep admits a document that Redis does not hold, with a mark from before its load: a purge
// received since makes it void, and one received later withdraws it.
func (r *Reader[V]) keep(f *flight[V], e *entry[V], began time.Duration, status int) {
	took := watch.Now() - began
	// A look that was made meanwhile, at another process, knows of what was purged there.
	cur := r.memory.Load()
	if r.watched.Withdrawn(&e.mark) || cur != nil && cur.redis.run != e.redis.run {
		r.store.fetched(r.key, outcomeLost, took, nil)
		return // look again
	}
	r.store.fetched(r.key, outcomeAlone, took, nil)
	r.pause.Store(nil)
	wall, now, fresh := time.Now(), watch.Now(), r.o.freshness()
	e.doc.FetchedAt, e.doc.FreshUntil = wall, wall.Add(fresh)
	e.unstored, e.fetchedAt = true, wall.UnixMilli()+r.skew.Load()
	e.setTimes(&r.o, now, 0, fresh)
	r.admit(e)
	f.entry, f.at, f.status = e, began, Status{FwdStatus: status, Detail: e.detail}
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
