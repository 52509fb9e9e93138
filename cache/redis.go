package cache

import (
	"context"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// acquire looks at Redis and takes the lease, if it is free and a fetch is due. Held is what the
// look has found, with a mark from before it and the place after it.
func (r *Reader[V]) acquire(ctx context.Context) (l lease.Lease, held *entry[V], err error) {
	began, prev := r.begin(), r.memory.Load()
	q := lease.Request{Have: prev.etag(), Token: r.store.token(), Length: r.leaseLength(), TTL: r.o.TTL, Source: r.o.Source}
	if prev != nil {
		q.Damaged = prev.damaged
		if prev.origin != originStored {
			q.Newer = prev.fetchedAt
		}
		if prev.origin == originLost {
			q.Lost = prev.fetchedAt
		}
	}
	mark, err := r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		l, err = r.hash.Acquire(ctx, c, q)
		return l.Wrote, err
	})
	if err != nil {
		return l, nil, err
	}
	began.wrote = l.Outcome == lease.Granted
	held, err = r.learn(began, prev, &l.Record, mark, false)
	if err != nil { // the lease is there all the same
		held = &entry[V]{}
		if e := r.alone(); e.etag() != "" && e.etag() == l.ETag { // that is known all the same
			*held = *e
		}
		held.mark, held.place = mark, l.Place
		return l, held, nil
	}
	return l, held, nil
}

// fill stores a document. Its mark is from before that.
func (r *Reader[V]) fill(ctx context.Context, l lease.Lease, d lease.Filling) (wrote lease.Filled, mark watch.Mark, err error) {
	mark, err = r.watched.Write(ctx, false, func(c redis.Cmdable) (bool, error) {
		wrote, err = r.hash.Fill(context.WithoutCancel(ctx), c, l, d)
		return wrote.Outcome == lease.Stored || wrote.Outcome == lease.Soft, err
	})
	return wrote, mark, err
}

// release gives the lease back, with word of a failure if the pause is not 0. If that fails, the
// lease expires; a Redis that refuses even to have it back, without such word, is asked again until
// then.
func (r *Reader[V]) release(ctx context.Context, l lease.Lease, p pause) (outcome lease.Outcome, err error) {
	outcome, err = r.releaseOnce(ctx, l, p)
	if p.length == 0 && watch.Replied(err) {
		until := watch.Now() + r.leaseLength()
		r.store.goTask(func() {
			for err := err; err != nil && watch.Now() < until && watch.Sleep(r.store.ctx, carryPause); {
				_, err = r.releaseOnce(r.store.ctx, l, p)
			}
		})
	}
	return outcome, err
}

func (r *Reader[V]) releaseOnce(ctx context.Context, l lease.Lease, p pause) (outcome lease.Outcome, err error) {
	ctx = context.WithoutCancel(ctx)
	failure := lease.Failure{Count: p.count}
	if p.err != nil {
		failure.Code = r.o.ErrorCode(p.err)
	}
	_, err = r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		outcome, err = r.hash.Release(ctx, c, l, failure, p.length)
		return false, err
	})
	return outcome, err
}

// want asks the other processes to load, and reports whether they are told.
func (r *Reader[V]) want(ctx context.Context, rec *lease.Record) bool {
	_, err := r.watched.Write(ctx, false, func(c redis.Cmdable) (bool, error) {
		return false, r.hash.Want(ctx, c, rec, wantLasts)
	})
	return err == nil
}

// read reads what Redis holds, with the body unless its etag is have.
func (r *Reader[V]) read(have string) (rec lease.Record, err error) {
	err = r.watched.Do(r.store.ctx, func(c redis.Cmdable) (err error) {
		rec, err = r.hash.Look(r.store.ctx, c, have)
		return err
	})
	return rec, err
}
