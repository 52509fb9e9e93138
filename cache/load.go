package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
)

// load calls the loader within its timeout, and prepares the result.
func (r *Reader[V]) load(ctx context.Context, base *Document) (loaded Loaded, doc *Document, value V, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.FetchTimeout)
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
			doc.UpstreamETag, doc.UpstreamLastModified = loaded.UpstreamETag, loaded.UpstreamLastModified
			return loaded, doc, e.value, nil
		}
	} else {
		r.size.Store(int64(len(loaded.Body)))
		if len(loaded.Body) == 0 { // which a fill would take for a renewal
			return loaded, nil, value, fmt.Errorf("loading %s: an empty body", r.key)
		}
		doc = &Document{Body: loaded.Body, ETag: ETag(loaded.Body), ChangedAt: time.UnixMilli(time.Now().UnixMilli())}
	}
	doc.UpstreamETag, doc.UpstreamLastModified = loaded.UpstreamETag, loaded.UpstreamLastModified
	value, err = r.prepare(doc)
	return loaded, doc, value, err
}

// prepare calls Prepare and turns a panic into an error, since waiters would otherwise wait for
// ever.
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

// knownChange is when the content with this etag last changed, or 0 if unknown here.
func (r *Reader[V]) knownChange(etag string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastETag == etag {
		return r.lastAt
	}
	return 0
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
	return max(watch.Jitter(d), time.Millisecond)
}

// errVoid ends a load whose fill would be refused.
var errVoid = errors.New("purged while it was fetched")

// guarded is the current load in this process, if any.
type guarded struct {
	token string
	since time.Duration // Redis had the token when this moment came
	end   context.CancelCauseFunc
}

// guard lets a look that finds the lease gone end the load that was made under it, so that a purge
// during a slow fetch does not wait for what nobody may have, and the CMS is not asked twice at
// once for longer than it takes to hear of it. But loads are not thrown away faster than they can
// end: one that follows another void one goes on.
func (r *Reader[V]) guard(ctx context.Context, l lease.Lease) (loading context.Context, unguard func() (void bool)) {
	loading, end := context.WithCancelCause(ctx)
	r.mu.Lock()
	if r.voids == 0 {
		r.loading = guarded{token: l.Token, since: watch.Now(), end: end}
	}
	r.mu.Unlock()
	return loading, func() bool {
		r.mu.Lock()
		r.loading = guarded{}
		r.mu.Unlock()
		void := errors.Is(context.Cause(loading), errVoid)
		end(nil)
		return void
	}
}

// void ends the current load if a look that began then, after its lease was taken, shows that its
// fill would be refused, after a hard purge. With a soft purge the document is stored as stale.
func (r *Reader[V]) void(rec *lease.Record, began time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.loading; g.token != "" && began > g.since && rec.Lease != g.token {
		g.end(errVoid)
	}
}

// voided records that a load was void, and reports whether the previous one was too.
func (r *Reader[V]) voided(took time.Duration) (again bool) {
	r.store.fetched(r.key, outcomeLost, took, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voids++
	return r.voids > 1
}
