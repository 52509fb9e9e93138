package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// A flight gets a document from wherever it is to be had, once for everybody in this process who waits for it. It runs
// on a context of the store's own: whoever gave up waiting does not end it for the others. Of the context of whoever
// started it, it has the values alone.
type flight[V any] struct {
	done chan struct{} // closed at the end; what follows is set before

	entry  *entry[V]
	at     time.Duration // every purge acknowledged before this moment is older than entry's fetch
	status Status
	err    error
}

// fly joins the flight under way, or starts one.
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
		// A purge may make a fetch be done again, and again; whoever waits has a patience of his own.
		ctx, cancel := context.WithTimeout(valued{Context: r.store.ctx, values: values}, 4*(r.policy.Load().FetchTimeout+leaseMargin))
		defer cancel()
		r.obtain(ctx, f)
		r.land(f)
	}
	if !r.store.goTask(run) {
		f.err = errClosed
		r.land(f)
	}
	return f, false
}

// A Lender is a context whose values end with the call that it is given to, such as those of a request whose memory is
// used again after it. Lend returns a context that has those which a load may still ask for later.
type Lender interface {
	context.Context
	Lend() context.Context
}

// lend returns the values of ctx, without its end.
func lend(ctx context.Context) context.Context {
	if l, ok := ctx.(Lender); ok {
		ctx = l.Lend()
	}
	return context.WithoutCancel(ctx)
}

// valued is a context that has the values of another one as well.
type valued struct {
	context.Context
	values context.Context
}

// Value looks into the lent values first.
func (v valued) Value(key any) any {
	if value := v.values.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}

var errClosed = errors.New("cache: the store is closed")

// land ends the flight. A soft purge heard since its fill would have joined it in vain: the attendant looks once more.
// A process that does not hear of purges has heard of none.
func (r *Reader[V]) land(f *flight[V]) {
	r.mu.Lock()
	r.flight = nil
	r.mu.Unlock()
	close(f.done)
	if r.store.Listening() {
		r.rouse()
	}
}

// obtain makes the flight: acquire the lease, fetch, fill; or wait for whoever has it.
func (r *Reader[V]) obtain(ctx context.Context, f *flight[V]) {
	elsewhere := false
	for {
		if ctx.Err() != nil {
			f.err = fmt.Errorf("%s: %w", r.key, ErrWait)
			return
		}
		if !r.store.Up() {
			if r.fetchAlone(ctx, f) {
				return
			}
			continue
		}
		heard := r.signal() // before acquire, so that no fill after it is missed
		r.mu.Lock()
		damaged := r.damaged
		r.mu.Unlock()
		p := r.policy.Load() // before the load, whose loader may follow it
		token := r.store.token()
		l, err := r.acquire(ctx, p, token, damaged)
		if err != nil {
			r.store.failed(err)
			r.orphan(token)
			continue
		}
		switch l.outcome {
		case granted:
			if r.fetch(ctx, f, p, l) {
				return
			}
		case fresh:
			f.at = r.store.now()
			e, err := r.ask(f.at)
			if err != nil {
				r.store.failed(err)
				continue
			}
			if e != nil {
				f.entry, f.status = e, Status{Hit: true, Detail: DetailRedis}
				if elsewhere {
					f.status = Status{Stored: true, Collapsed: true, Detail: DetailLeaseElsewhere}
				}
				return
			}
		case failed:
			r.failing.Store(true)
			f.err = &RetryError{After: l.left, Err: r.o.CodeError(l.failure.code)}
			return
		default: // held
			elsewhere = true
			r.await(ctx, heard, l.left)
		}
	}
}

func (r *Reader[V]) acquire(ctx context.Context, p *Policy, token, damaged string) (lease, error) {
	ctx, cancel := context.WithTimeout(ctx, r.store.timeout)
	defer cancel()
	return r.store.acquire(ctx, r.key, token, p.Source, damaged, p.FetchTimeout+leaseMargin, p.TTL)
}

// await waits until the key changes or its lease has run out. Only a process that cannot hear of changes asks at intervals.
func (r *Reader[V]) await(ctx context.Context, heard <-chan struct{}, left time.Duration) {
	left += time.Millisecond
	if !r.store.Listening() {
		left = min(left, jitter(deafPause))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-heard:
	case <-timer.C:
	}
}

// deafPause is how often a lease held elsewhere is looked at while invalidations are not heard.
const deafPause = 50 * time.Millisecond

// fetch loads under the lease and fills. It reports false when a purge, or another holder, made its work void:
// then it is done again at once.
func (r *Reader[V]) fetch(ctx context.Context, f *flight[V], p *Policy, l lease) (done bool) {
	var base *Document // what a NotModified would renew: the very document that Redis holds
	if e := r.memory.Load(); e != nil && l.etag != "" && e.doc.ETag == l.etag && l.source == p.Source {
		base = e.doc
	}
	began, before := time.Now(), r.gen.Load()
	loading, unguard := r.guard(ctx, l)
	loaded, doc, value, err := r.load(loading, p, base)
	unguard()
	if err != nil && errors.Is(context.Cause(loading), errVoid) {
		r.store.fetched(r.key, lost, time.Since(began), nil)
		r.handBack(l)
		return false
	}
	if err != nil {
		return r.giveUp(f, l, err, time.Since(began))
	}
	fill := filling{
		source: p.Source, etag: doc.ETag, body: doc.Body, ttl: p.freshness(), window: p.window(),
		upstreamETag: doc.UpstreamETag, upstreamLastModified: doc.UpstreamLastModified,
	}
	if loaded.NotModified {
		fill.body = nil
	}
	r.mu.Lock()
	if r.lastETag == doc.ETag {
		fill.changedAt = r.lastAt
	}
	r.mu.Unlock()

	epoch, gen := r.store.epoch.Load(), r.gen.Load()
	at := r.store.now()
	writing, cancel := context.WithTimeout(ctx, writeTimes*r.store.timeout)
	defer cancel()
	wrote, err := r.store.fill(writing, r.key, l, fill)
	if err != nil {
		if r.store.ctx.Err() != nil { // closing: what was written of it, if anything, is whole
			r.handBack(l)
			f.err = errClosed
			return true
		}
		r.store.failed(err)
		if r.gen.Load() != before {
			// A purge may have been heard during the load, which nobody is left to refuse the fill for.
			r.store.fetched(r.key, lost, time.Since(began), nil)
			return r.fetchAlone(ctx, f)
		}
		// The document is good, whatever Redis made of it: those who wait get it, and this process is on its own.
		r.store.fetched(r.key, "alone", time.Since(began), nil)
		r.keepAlone(f, p, doc, value, before)
		f.status.FwdStatus = loaded.Status
		return true
	}
	outcome := wrote.outcome
	if outcome == stored && loaded.NotModified {
		outcome = "renewed"
	}
	r.store.fetched(r.key, outcome, time.Since(began), nil)
	r.failing.Store(false)
	if wrote.outcome != stored {
		return false
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	wall, now := time.Now(), r.store.now()
	doc.FetchedAt, doc.ChangedAt, doc.FreshUntil = wall, time.UnixMilli(wrote.changedAt), wall.Add(ms(wrote.freshUntil-wrote.now))
	if base != nil && loaded.NotModified {
		doc.ChangedAt = base.ChangedAt
	}
	e := &entry[V]{doc: doc, value: value, epoch: epoch, gen: gen, fetchedAt: wrote.now, freshUntil: wrote.freshUntil, source: p.Source}
	e.times(p, now, 0, ms(wrote.freshUntil-wrote.now))
	r.admit(e)
	f.entry, f.at, f.status = e, at, Status{FwdStatus: loaded.Status, Stored: true}
	return true
}

// load calls the loader within its time, and prepares what it brought.
func (r *Reader[V]) load(ctx context.Context, p *Policy, base *Document) (loaded Loaded, doc *Document, value V, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.FetchTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("loading %s: panic: %v\n%s", r.key, p, debug.Stack())
		}
	}()
	loaded, err = r.o.Loader.Load(ctx, r.key, base)
	if err != nil {
		return loaded, nil, value, err
	}
	if loaded.NotModified {
		if base == nil {
			return loaded, nil, value, fmt.Errorf("loading %s: not modified, but nothing was held", r.key)
		}
		renewed := *base
		loaded.Body = base.Body
		doc = &renewed
		if e := r.memory.Load(); e != nil && e.doc == base {
			value = e.value
			return loaded, doc, value, nil
		}
	} else {
		if len(loaded.Body) == 0 { // which a fill would take for a renewal
			return loaded, nil, value, fmt.Errorf("loading %s: an empty body", r.key)
		}
		doc = &Document{Body: loaded.Body, ETag: ETag(loaded.Body)}
	}
	doc.UpstreamETag, doc.UpstreamLastModified = loaded.UpstreamETag, loaded.UpstreamLastModified
	doc.ChangedAt = time.UnixMilli(time.Now().UnixMilli())
	value, err = r.prepare(doc)
	return loaded, doc, value, err
}

// prepare calls Prepare, whose panic is an error: those who wait for what it makes would wait for ever.
func (r *Reader[V]) prepare(doc *Document) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("preparing %s: panic: %v\n%s", r.key, p, debug.Stack())
		}
	}()
	if value, err = r.o.Prepare(doc); err != nil {
		err = fmt.Errorf("preparing %s: %w", r.key, err)
	}
	return value, err
}

// giveUp leaves word of the failure with the lease. A purge that came meanwhile makes the fetch due again.
func (r *Reader[V]) giveUp(f *flight[V], l lease, cause error, took time.Duration) (done bool) {
	if r.store.ctx.Err() != nil { // not the CMS's failure: this process is closing
		r.handBack(l)
		f.err = errClosed
		return true
	}
	word := failure{count: l.failure.count + 1, code: r.o.ErrorCode(cause)}
	pause := r.backoff(word.count)
	f.err = &RetryError{After: pause, Err: cause}
	ctx, cancel := context.WithTimeout(r.store.ctx, r.store.timeout)
	defer cancel()
	outcome, err := r.store.release(ctx, r.key, l, word, pause)
	r.store.fetched(r.key, "failed", took, cause)
	r.failing.Store(true)
	if err != nil {
		r.store.failed(err)
		return true
	}
	return outcome == released
}

// handBack gives the lease back with no word of a failure, also when the store is closing. What is not given back runs out.
func (r *Reader[V]) handBack(l lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.store.ctx), r.store.timeout)
	defer cancel()
	if _, err := r.store.release(ctx, r.key, l, failure{}, 0); err != nil {
		r.store.failed(err)
	}
}

// backoff is the pause after the count-th failure in a row.
func (r *Reader[V]) backoff(count int) time.Duration {
	d := min(r.o.BackoffFirst, r.o.BackoffMost)
	for range count - 1 {
		if d > r.o.BackoffMost/2 {
			d = r.o.BackoffMost
			break
		}
		d *= 2
	}
	return max(jitter(d), time.Millisecond)
}
