package cache

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// fill stores a document. Its mark is from before that.
func (r *Reader[V]) fill(ctx context.Context, l lease.Lease, d lease.Filling) (wrote lease.Filled, mark watch.Mark, err error) {
	mark, err = r.watched.Write(ctx, false, func(c redis.Cmdable) (bool, error) {
		wrote, err = r.hash.Fill(context.WithoutCancel(ctx), c, l, d)
		return wrote.Outcome == lease.Stored || wrote.Outcome == lease.Soft, err
	})
	return wrote, mark, err
}

// release gives the lease back, if there is one, with word of a failure if the pause is not 0. A
// Redis that refuses even to have it back, without such word, is asked again. If Redis does not
// answer, a later look finds the lease, or it expires.
func (r *Reader[V]) release(ctx context.Context, l lease.Lease, p pause) (outcome lease.Outcome, err error) {
	if l.Token == "" {
		return lease.Released, nil
	}
	outcome, err = r.releaseOnce(ctx, l, p)
	switch {
	case p.length == 0 && watch.Replied(err):
		r.giveBack(l, callPause)
	case p.length > 0 && outcome == lease.Released:
		r.accepted("release")
	}
	return outcome, err
}

// giveBackLeftover gives back the lease that a look has found, if it is of this process and no flight
// here has it: the reply of its acquire was lost, or its release was.
func (r *Reader[V]) giveBackLeftover(rec *lease.Record) {
	if rec.Left == 0 || !strings.HasPrefix(rec.Lease, r.store.holder+"/") {
		return
	}
	r.mu.Lock()
	used := r.flight != nil && r.flight.token == rec.Lease
	r.mu.Unlock()
	if !used {
		r.giveBack(lease.Lease{Record: *rec, Token: rec.Lease}, 0)
	}
}

// giveBack gives a lease back after a pause, unless one is being given back: a look follows, which
// finds another. It tries again while Redis refuses, until the lease has expired.
func (r *Reader[V]) giveBack(l lease.Lease, pausing time.Duration) {
	r.once(&r.giving, func() {
		for until := watch.Now() + r.leaseLength(); watch.Now() < until && watch.Sleep(r.store.ctx, pausing); pausing = callPause {
			if _, err := r.releaseOnce(r.store.ctx, l, pause{}); !watch.Replied(err) {
				return
			}
		}
	})
}

func (r *Reader[V]) releaseOnce(ctx context.Context, l lease.Lease, p pause) (outcome lease.Outcome, err error) {
	ctx = context.WithoutCancel(ctx)
	word := lease.Word{Failure: lease.Failure{Count: p.count, Code: lease.CodeHeld}, Pause: p.length, Hold: p.hold, Last: p.last}
	if p.err != nil && !p.isHeld() {
		word.Failure.Code = r.o.ErrorCode(p.err)
	}
	_, err = r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		outcome, err = r.hash.Release(ctx, c, l, word)
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

// refuse records that Redis answered a write with an error. A Redis that refuses is still
// reachable: it is read, and purges are received.
func (r *Reader[V]) refuse(operation string, err error) {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = reply
	}
	reason, _, _ := strings.Cut(err.Error(), " script: ") // without the place in our script
	if r.refusal.Swap(&operation) == nil {
		r.store.log.Warn("redis refuses writes: "+reason, "redis", r.store.Addr(), "resource", r.key, "operation", operation) //nolint:sloglint // the reason is what is searched for
	}
	r.store.refusing(r.key, reason)
}

// accepted records a successful write: a lease may fit where a document does not.
func (r *Reader[V]) accepted(operation string) {
	if old := r.refusal.Load(); old != nil && (operation == "fill" || *old == operation) && r.refusal.CompareAndSwap(old, nil) {
		r.store.refusing(r.key, "")
		r.store.log.Info("redis accepts writes again", "redis", r.store.Addr(), "resource", r.key)
	}
}
