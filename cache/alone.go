package cache

import (
	"context"
	"time"
)

// fetchAlone loads while Redis is away: for this process only, which backs off on its own. It reports false when a
// purge was heard meanwhile all the same, so that the load has to be done again.
func (r *Reader[V]) fetchAlone(ctx context.Context, f *flight[V]) (done bool) {
	now := r.store.now()
	r.mu.Lock()
	if now < r.alone.until {
		f.err = &RetryError{After: r.alone.until - now, Err: r.alone.err}
		r.mu.Unlock()
		return true
	}
	r.mu.Unlock()

	p := r.policy.Load() // before the load, whose loader may follow it
	gen := r.gen.Load()
	var base *Document
	if e := r.memory.Load(); e != nil && e.gen == gen && e.source == p.Source {
		base = e.doc
	}
	began := time.Now()
	loaded, doc, value, err := r.load(ctx, p, base)
	if r.store.ctx.Err() != nil {
		f.err = errClosed
		return true
	}
	if err != nil {
		r.store.fetched(r.key, "failed", time.Since(began), err)
		r.failing.Store(true)
		r.mu.Lock()
		r.alone.count++
		pause := r.backoff(r.alone.count)
		r.alone.until, r.alone.err = r.store.now()+pause, err
		r.mu.Unlock()
		f.err = &RetryError{After: pause, Err: err}
		return true
	}
	r.store.fetched(r.key, "alone", time.Since(began), nil)
	r.failing.Store(false)
	r.mu.Lock()
	r.alone.count, r.alone.until, r.alone.err = 0, 0, nil
	if r.lastETag == doc.ETag {
		doc.ChangedAt = time.UnixMilli(r.lastAt)
	}
	r.mu.Unlock()
	if r.gen.Load() != gen {
		return false
	}
	r.keepAlone(f, p, doc, value, gen)
	f.status.FwdStatus = loaded.Status
	return true
}

// keepAlone admits a document that Redis does not know of: under the epoch 0, so that it is never taken for coherent,
// and under the generation from before its load, so that a purge heard meanwhile removes it.
func (r *Reader[V]) keepAlone(f *flight[V], p *Policy, doc *Document, value V, gen uint64) {
	wall, now, fresh := time.Now(), r.store.now(), p.freshness()
	doc.FetchedAt, doc.FreshUntil = wall, wall.Add(fresh)
	e := &entry[V]{doc: doc, value: value, gen: gen, freshUntil: doc.FreshUntil.UnixMilli(), source: p.Source}
	e.times(p, now, 0, fresh)
	r.admit(e)
	f.entry, f.at, f.status = e, now, Status{Detail: DetailRedisAway}
}
