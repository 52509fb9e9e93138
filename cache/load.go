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
	doc.Suspicions = loaded.Suspicions
	doc.UpstreamETag, doc.UpstreamLastModified = loaded.UpstreamETag, loaded.UpstreamLastModified
	e = &entry[V]{doc: doc, source: r.o.Source}
	if held := r.memory.Load(); f.renewed && held.doc == base {
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
	if r.voids == 0 && l.Token != "" {
		f.since, f.end = watch.Now(), end
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
