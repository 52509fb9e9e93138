package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// objection is what the guard has against replacing the copy that would be served now; nil if
// nothing, or if there is no such copy of the same source. One that ends before the CMS would be
// asked again is none: visitors would get an error.
func (r *Reader[V]) objection(f *flight[V], held, e *entry[V]) *Objection {
	if r.o.Guard == nil || f.renewed || held.doc == nil || watch.Now() >= r.holdsUntil(held) || held.source != r.o.Source || held.doc.ETag == e.doc.ETag {
		return nil
	}
	o := r.o.Guard(held.doc, e.doc)
	if o != nil && !o.Lasting && r.o.GuardHold < time.Millisecond {
		return nil
	}
	return o
}

// holdBack records with the lease that its document is held back, as giveUp does a failure. It
// reports false if the document is to be stored all the same.
func (r *Reader[V]) holdBack(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], o *Objection) bool {
	p := r.heldPause(l.Failure.Count, held, r.watched.Mark())
	last := time.Now().UnixMilli() + r.skew.Load() - (watch.Now() - r.holdsUntil(held)).Milliseconds()
	var length time.Duration
	if !o.Lasting {
		length = r.o.GuardHold
	}
	var outcome lease.Outcome
	var hold lease.Hold
	_, err := r.watched.Write(ctx, true, func(c redis.Cmdable) (_ bool, err error) {
		outcome, hold, err = r.hash.HoldBack(context.WithoutCancel(ctx), c, l, lease.Failure{Count: p.count, Code: lease.CodeHeld}, p.length,
			lease.Hold{Reason: o.Reason, Before: o.Before, Now: o.Now}, length, last)
		return false, err
	})
	switch {
	case err == nil && outcome == lease.Accepted:
		return false
	case err == nil && outcome == lease.Lost: // purged, or recorded without a reply: nobody gets it
		r.store.fetched(r.key, outcomeLost, f.took, nil)
		f.void = true
		return true
	case err != nil: // it is held back by this process alone
		if !r.holdAlone(f, p, o) {
			return false
		}
		if watch.Replied(err) {
			r.refuse("release", err)
			_, _ = r.release(ctx, l, pause{}) // nobody waits for it, then
		}
		return true
	}
	r.store.fetched(r.key, outcomeHeld, f.took, nil)
	r.setHold(hold)
	if outcome == lease.Released {
		r.rest(p)
	}
	return true
}

// holdAlone is holdBack without word to the others.
func (r *Reader[V]) holdAlone(f *flight[V], p pause, o *Objection) bool {
	now := time.Now().UnixMilli() + r.skew.Load()
	hold := lease.Hold{Since: now, Reason: o.Reason, Before: o.Before, Now: o.Now}
	if h := r.held.Load(); h != nil && (h.Until == 0) == o.Lasting {
		hold.Since = h.Since
	}
	if !o.Lasting {
		if hold.Until = hold.Since + r.o.GuardHold.Milliseconds(); now >= hold.Until {
			return false
		}
	}
	r.store.fetched(r.key, outcomeHeld, f.took, nil)
	r.setHold(hold)
	r.rest(p)
	return true
}

// heldPause is the pause after a document was held back. It ends just before the copy does: what
// comes then is taken. However late that is recorded, whoever waits looks again, and has the copy or
// fetches: there is a document for everybody.
func (r *Reader[V]) heldPause(count int, held *entry[V], mark watch.Mark) pause {
	p, now := r.after(count, ErrHeld), watch.Now()
	p.length = max(min(p.length, r.holdsUntil(held)-now), time.Millisecond)
	p.until, p.mark = now+p.length, mark
	return p
}

// holdsUntil is until when a copy holds anything back: just before its end.
func (r *Reader[V]) holdsUntil(e *entry[V]) time.Duration {
	return e.servableUntil - min(r.o.BackoffFirst, leaseMargin)
}

// Accept accepts the next document of key, as an operator's HSET accept 1 would. It reports whether
// there is anything in Redis to replace, and whether a document is held back now.
func (s *Store) Accept(ctx context.Context, key string) (held, back bool, err error) {
	err = s.do(ctx, key, func(c redis.Cmdable) error {
		held, back, err = s.hash(key).Accept(ctx, c)
		return err
	})
	return held, back, err
}
