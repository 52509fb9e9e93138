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

// holdBack holds a document back, and records that with the lease if there is one, as giveUp does a
// failure. It reports false if the document is to be stored all the same.
func (r *Reader[V]) holdBack(ctx context.Context, f *flight[V], l lease.Lease, held *entry[V], o *Objection) bool {
	at := watch.Now()
	now := r.inRedis(at)
	hold := lease.Hold{Since: now, Reason: o.Reason, Before: o.Before, Now: o.Now}
	if h := r.memory.Load().hold; h.Since > 0 && h.Since <= now && (h.Until == 0) == o.Lasting {
		hold.Since = h.Since
	}
	if !o.Lasting {
		if hold.Until = hold.Since + r.o.GuardHold.Milliseconds(); now >= hold.Until {
			return false
		}
	}
	// The pause ends just before the copy does: what comes then is taken. However late that is
	// recorded, whoever waits looks again, and has the copy or fetches: there is a document for
	// everybody.
	p, left := r.after(r.pause.Load().count, ErrHeld), r.holdsUntil(held)-at
	p.length = max(min(p.length, left), time.Millisecond)
	p.until, p.mark, p.hold, p.last = at+p.length, held.mark, hold, now+left.Milliseconds()
	if l.Token != "" {
		p.mark = r.watched.Mark()
	}
	outcome, err := r.release(ctx, l, p)
	switch {
	case outcome == lease.Accepted:
		return false
	case outcome == lease.Lost: // purged, or recorded without a reply: nobody gets it
		r.store.fetched(r.key, outcomeLost, f.took, nil)
		f.void = true
		return true
	case watch.Replied(err): // it is held back by this process alone
		r.refuse("release", err)
		_, _ = r.release(ctx, l, pause{}) // nobody waits for it, then
	}
	r.store.fetched(r.key, outcomeHeld, f.took, nil)
	r.setHold(hold)
	if outcome != lease.Soft {
		r.pause.Store(&p)
	}
	r.see(false)
	return true
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
