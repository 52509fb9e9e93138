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

// A pause follows a failed attempt to load, by any process.
type pause struct {
	count int // failures in a row
	until time.Duration
	err   error
	mark  watch.Mark // a change since makes the load due again
}

// failing reports whether the last attempt to load that this process knows of failed.
func (r *Reader[V]) failing() bool { return r.pause.Load() != nil }

// paused is the failure whose pause is not over; nil if a load can be tried.
func (r *Reader[V]) paused(now time.Duration) error {
	p := r.pause.Load()
	if p == nil || now >= p.until || r.watched.Withdrawn(&p.mark) {
		return nil
	}
	return &RetryError{After: p.until - now, Err: p.err}
}

// noteFailure learns from the hash whether the last attempt to load, by any process, failed.
func (r *Reader[V]) noteFailure(rec *lease.Record, mark watch.Mark) {
	switch {
	case rec.Failure.Count > 0:
		p := &pause{count: rec.Failure.Count, until: watch.Now() + rec.Left, err: r.o.CodeError(rec.Failure.Code), mark: mark}
		if own := r.pause.Load(); own != nil {
			if r.store.refused.Load() != nil && own.until > p.until {
				return // a failure since then could not be recorded
			}
			if own.count == p.count && (own.until-p.until).Abs() < leaseMargin {
				p.err = own.err // this process may know more than the record
			}
		}
		r.pause.Store(p)
	case rec.Lease == "" && r.store.refused.Load() == nil:
		r.pause.Store(nil)
	}
}
