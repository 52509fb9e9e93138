package cache

import (
	"context"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// acquire looks at Redis and takes the lease, if it is free and a fetch is due. Held is what the look
// has found, with a mark from before it.
func (r *Reader[V]) acquire(ctx context.Context) (l lease.Lease, held *entry[V], err error) {
	r.mu.Lock()
	damaged := r.damaged
	r.mu.Unlock()
	prev, run := r.memory.Load(), r.watched.Run()
	q := lease.Request{
		Have: prev.etag(), Token: r.store.token(), Length: r.leaseLength(), TTL: r.o.TTL, Source: r.o.Source, Damaged: damaged,
		Lost: prev.lostOnly(),
	}
	mark, err := r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		l, err = r.hash.Acquire(ctx, c, q)
		return l.Outcome == lease.Granted, err
	})
	switch {
	case err != nil && !watch.Replied(err):
		r.orphan(q.Token)
	case err != nil:
	case run != "" && r.watched.Run() != run: // which process was it?
		held = (*entry[V])(nil).in(heldIn(&l.Record, ""))
		held.mark = mark
	default:
		held = r.learn(prev, &l.Record, mark, r.watched.Run())
	}
	return l, held, err
}

func (r *Reader[V]) fill(ctx context.Context, l lease.Lease, d lease.Document) (wrote lease.Filled, mark watch.Mark, err error) {
	mark, err = r.watched.Write(ctx, false, func(c redis.Cmdable) (bool, error) {
		wrote, err = r.hash.Fill(context.WithoutCancel(ctx), c, l, d)
		return wrote.Outcome == lease.Stored || wrote.Outcome == lease.Soft, err
	})
	return wrote, mark, err
}

// release gives the lease back; without a word, and if that fails, it expires.
func (r *Reader[V]) release(ctx context.Context, l lease.Lease, w lease.Word) (outcome lease.Outcome, mark watch.Mark, err error) {
	ctx = context.WithoutCancel(ctx)
	restored := false
	mark, err = r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		outcome, restored, err = r.hash.Release(ctx, c, l, w)
		return outcome == lease.Released || outcome == lease.Soft, err
	})
	if restored {
		r.store.log.Info("the last good copy is back in redis", "resource", r.key)
	}
	return outcome, mark, err
}

// orphan records a lease that Redis may have granted although the reply was lost: the next look
// releases it, so that nobody waits for a fetch that is not made.
func (r *Reader[V]) orphan(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphaned = token
}
