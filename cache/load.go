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

	began, took time.Duration // of its load
	renewed     bool          // the document that Redis holds is current

	// The lease that Redis had when since came, and what ends the load under it: see guard. They are
	// guarded by the reader's mutex.
	token string
	since time.Duration
	end   context.CancelCauseFunc
}

// A Lender is a context whose values are valid during a call only, such as a request whose memory
// is reused. Lend returns a context with the values that a load may need later.
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

// load calls the loader within its timeout, and prepares the result.
func (r *Reader[V]) load(ctx context.Context, f *flight[V], base *Document) (e *entry[V], err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.FetchTimeout)
	defer cancel()
	f.began = watch.Now()
	defer func() {
		f.took = watch.Now() - f.began
		if p := recover(); p != nil {
			err = fmt.Errorf("loading %s: panic: %v\n%s", r.key, p, debug.Stack())
		}
	}()
	loaded, err := r.o.Loader.Load(ctx, r.key, base)
	if err != nil {
		return nil, err
	}
	f.renewed, f.status.FwdStatus = loaded.NotModified, loaded.Status
	doc := &Document{Body: loaded.Body, ChangedAt: time.UnixMilli(time.Now().UnixMilli())}
	switch {
	case !loaded.NotModified:
		r.size.Store(int64(len(loaded.Body)))
		if len(loaded.Body) == 0 { // which a fill would take for a renewal
			return nil, fmt.Errorf("loading %s: an empty body", r.key)
		}
		doc.ETag = ETag(loaded.Body)
	case base == nil:
		return nil, fmt.Errorf("loading %s: not modified, but nothing was held", r.key)
	default:
		*doc = *base
	}
	doc.UpstreamETag, doc.UpstreamLastModified = loaded.UpstreamETag, loaded.UpstreamLastModified
	e = &entry[V]{doc: doc, detail: DetailMemory, source: r.o.Source}
	if held := r.memory.Load(); f.renewed && held != nil && held.doc == base {
		e.value = held.value
	} else {
		e.value, err = r.prepare(doc)
	}
	return e, err
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

// Untried is the error of a loader that did not try, such as a circuit breaker's.
type Untried interface {
	error
	TryAfter() time.Duration // when it will, or 0 if that is unknown
}

// penalty is how many failures there are in a row after one more, and the pause that follows. A load
// that was not tried is not one more, and is due when it will be.
func (r *Reader[V]) penalty(count int, cause error) (int, time.Duration) {
	if u, ok := errors.AsType[Untried](cause); ok {
		return max(count, 1), min(max(u.TryAfter(), r.backoff(1)), r.o.BackoffMost)
	}
	return count + 1, r.backoff(count + 1)
}

// backoff is the pause after the count-th failure in a row.
func (r *Reader[V]) backoff(count int) time.Duration {
	d := min(r.o.BackoffFirst, r.o.BackoffMost)
	for i := 1; i < count && d < r.o.BackoffMost; i++ {
		d += min(d, r.o.BackoffMost-d)
	}
	return max(min(watch.Jitter(d), r.o.BackoffMost), time.Millisecond)
}

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
