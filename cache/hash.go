package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

func (r *Reader[V]) acquire(ctx context.Context) (l lease.Lease, err error) {
	r.mu.Lock()
	damaged := r.damaged
	r.mu.Unlock()
	q := lease.Request{Token: r.store.token(), Length: r.leaseLength(), TTL: r.o.TTL, Source: r.o.Source, Damaged: damaged}
	w := r.watched.Begin()
	err = r.watched.Do(ctx, true, func(c redis.Cmdable) (err error) {
		l, err = r.hash.Acquire(ctx, c, q)
		return err
	})
	w.End(l.Outcome == lease.Granted, err == nil || watch.Replied(err))
	if err != nil && !watch.Replied(err) {
		r.orphan(q.Token)
	}
	return l, err
}

func (r *Reader[V]) fill(ctx context.Context, l lease.Lease, d lease.Document) (wrote lease.Filled, err error) {
	w := r.watched.Begin()
	err = r.watched.Do(ctx, false, func(c redis.Cmdable) (err error) {
		wrote, err = r.hash.Fill(context.WithoutCancel(ctx), c, l, d)
		return err
	})
	w.End(wrote.Outcome == lease.Stored || wrote.Outcome == lease.Soft, err == nil || watch.Replied(err))
	return wrote, err
}

// handBack releases the lease without recording a failure, also when the store is closing.
// Otherwise it expires.
func (r *Reader[V]) handBack(ctx context.Context, l lease.Lease, keep time.Duration) error {
	_, err := r.release(ctx, l, lease.Failure{}, 0, keep)
	return err
}

func (r *Reader[V]) release(ctx context.Context, l lease.Lease, word lease.Failure, wait, keep time.Duration) (outcome lease.Outcome, err error) {
	ctx = context.WithoutCancel(ctx)
	w := r.watched.Begin()
	err = r.watched.Do(ctx, true, func(c redis.Cmdable) (err error) {
		outcome, err = r.hash.Release(ctx, c, l, word, wait, keep)
		return err
	})
	w.End(outcome == lease.Released || outcome == lease.Soft, err == nil || watch.Replied(err))
	return outcome, err
}

// restore puts the last good copy back into a Redis that has lost it, if it cannot be loaded.
func (r *Reader[V]) restore() {
	now, e := watch.Now(), r.memory.Load()
	if !e.holds(now) || !e.lost || !e.unstored || e.redis.run != r.watched.Run() || !r.watched.Up() || r.watched.Withdrawn(&e.mark) {
		return
	}
	d := lease.Document{
		Source: e.source, ETag: e.doc.ETag, Body: e.doc.Body, UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified,
		FetchedAt: e.fetchedAt, ChangedAt: e.doc.ChangedAt.UnixMilli(), Window: e.servableUntil - now,
	}
	restored := false
	w := r.watched.Begin()
	err := r.watched.Do(r.store.ctx, false, func(c redis.Cmdable) (err error) {
		restored, err = r.hash.Restore(r.store.ctx, c, d)
		return err
	})
	w.End(restored, err == nil || watch.Replied(err))
	switch {
	case watch.Replied(err):
		r.store.refuse("restore", err)
	case restored:
		r.store.log.Info("the last good copy is back in redis", "resource", r.key)
	}
}

// orphan records a lease that Redis may have granted although the reply was lost: the next look
// releases it, so that nobody waits for a fetch that is not made.
func (r *Reader[V]) orphan(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphaned = token
}

// adopt releases a lease that a look has found to be an orphan.
func (r *Reader[V]) adopt(found string) {
	r.mu.Lock()
	mine := found != "" && found == r.orphaned
	if mine {
		r.orphaned = ""
	}
	r.mu.Unlock()
	if mine {
		_ = r.handBack(context.WithoutCancel(r.store.ctx), lease.Lease{Token: found}, 0)
	}
}
