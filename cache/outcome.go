package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// end says what became of a load. Whether a fill without a reply was executed, the next poll shows.
func (k *keeper[V]) end(f *flight[V]) {
	c := f.loaded.Load()
	f.ended = poll.Now()
	k.wanted.Store(false) // who still waits asks again
	switch {
	case errors.Is(f.err, errVoid):
		k.voided(f, nil)
	case f.err != nil:
		k.fails(f)
	case f.outcome == lease.Lost && f.hold.Since > 0:
		k.voided(f, nil)
	case f.outcome == lease.Lost:
		k.voided(f, c)
	case f.hold.Since > 0:
		k.holds(f)
	case f.outcome != "": // a copy from now on, should the poll that is to show it not be answered, or Redis die
		k.filled(f, c)
	case f.failed == nil: // Redis is unreachable, or has refused the lease
		k.release(f, lease.Failure{}, 0)
		k.keepAs(f, f.source)
	case poll.Replied(f.failed): // a full Redis
		k.refuses(f)
	case k.now.unreachable:
		k.keepAs(f, local)
	default:
		k.member.Ask()
	}
}

// settle says what became of a fill without a reply, once a poll was sent after it.
func (k *keeper[V]) settle(p *poll.Result) {
	f := k.flight
	if f == nil || f.ended == 0 || !p.Unreachable && p.Sent < f.ended {
		return
	}
	switch c, at := f.loaded.Load(), f.from.saw.Generation; {
	case p.Unreachable:
		k.keepAs(f, local)
	case p.ETag == c.doc.ETag && p.Set == at.Set && p.Seq == at.Seq+1:
		k.brought = c
		k.ended(f, string(lease.Stored), &answer[V]{copy: c.as(stored)})
	case p.Lease == f.token: // intact: the two connections may reach two servers
		k.member.Drop(p.Conn)
		k.refuses(f)
	default:
		k.voided(f, c)
	}
}

// ended answers those who asked before a load began, if there is an answer.
func (k *keeper[V]) ended(f *flight[V], outcome string, a *answer[V]) {
	k.flight = nil
	if a != nil {
		a.began, k.now.load = f.began, a
	}
	if k.store.o.Events.Fetched != nil {
		k.store.o.Events.Fetched(k.key, outcome, f.took, f.err)
	}
}

// filled has what Redis has stored as the copy.
func (k *keeper[V]) filled(f *flight[V], c *cached[V]) {
	outcome := string(f.outcome)
	if f.renewed && f.outcome == lease.Stored {
		outcome = outcomeRenewed
	}
	k.store.accepted(k.key, "fill")
	k.voids, k.brought = 0, c
	n := c.as(filled)
	if k.isWhere(f) { // else a poll has shown it already, or a purge
		if k.base = n; f.outcome == lease.Soft {
			k.put(f, n.due(f.ended))
		} else {
			k.put(f, n)
		}
	}
	k.wrote = lease.Generation{Set: f.from.saw.Set, Seq: f.from.saw.Seq + 1}
	at, replaced := k.wrote, f.from.copy
	k.store.tasks.Go(func() { k.remember(at, c.doc, replaced.document()) })
	k.ended(f, outcome, &answer[V]{copy: n})
	k.member.Ask()
}

// holds notes that a document is held back: what Redis has not recorded holds for this process alone.
func (k *keeper[V]) holds(f *flight[V]) {
	v := &k.now
	v.hold, k.ownHold, k.heldAt = f.hold, f.outcome == "", f.ended
	if k.ownHold {
		if poll.Replied(f.failed) {
			k.store.refused(k.key, "hold", f.failed, 0)
		}
		k.release(f, lease.Failure{}, 0)
	}
	if v.failure = (&failure{err: ErrHeld, count: v.failure.failures() + 1, until: f.ended + f.pause, own: k.ownHold}); f.outcome == lease.Soft { // the fetch is due again
		v.failure = nil
		k.wanted.Store(true)
	}
	k.member.Ask()
	k.ended(f, outcomeHeld, &answer[V]{err: &RetryError{After: f.pause, Err: ErrHeld}})
}

// refuses keeps what Redis refused to store.
func (k *keeper[V]) refuses(f *flight[V]) {
	k.store.refused(k.key, "fill", f.failed, len(f.loaded.Load().doc.Body))
	k.release(f, lease.Failure{}, 0)
	k.keepAs(f, refused)
}

// keepAs has a document that Redis did not take as the copy, if Redis is where it was.
func (k *keeper[V]) keepAs(f *flight[V], s source) {
	c := f.loaded.Load().as(s)
	k.brought = c                         // the fill may have been executed
	if s == local && !k.now.unreachable { // to be stored
		c.ahead = min(c.ahead, poll.Now())
	}
	if !k.isWhere(f) {
		k.voided(f, c)
		return
	}
	k.put(f, c)
	k.ended(f, outcomeAlone, &answer[V]{copy: c})
}

// isWhere reports whether Redis is where it was when a load began, as far as polls have shown.
func (k *keeper[V]) isWhere(f *flight[V]) bool {
	return k.now.asked == f.from.asked && k.now.saw.Generation == f.from.saw.Generation
}

// put has what was loaded as the copy: what failed, or was held back, before it is over.
func (k *keeper[V]) put(f *flight[V], c *cached[V]) {
	k.voids, k.over, k.told.end = 0, k.now.saw.LeaseUntil, f.released
	k.now.copy, k.now.failure, k.now.hold, k.ownHold = c, nil, guard.Record{}, false
	k.changed = lastChange{c.doc.ETag, c.doc.ChangedAt}
}

// voided ends a load that a purge made void. If that happens repeatedly, those who asked before it
// began get the document: no purge that they could know of came after it.
func (k *keeper[V]) voided(f *flight[V], c *cached[V]) {
	f.err = nil // it is no failure
	if k.voids++; k.voids > 1 && c != nil {
		k.ended(f, outcomeLost, &answer[V]{copy: c.as(stored), discarded: true})
		return
	}
	k.wanted.Store(true)
	k.ended(f, outcomeLost, nil)
}

// fails notes a failure.
func (k *keeper[V]) fails(f *flight[V]) {
	before, next := k.now.failure, &failure{err: f.err, count: k.now.failure.failures() + 1, own: true}
	backoff, told := k.backoff(next.count), lease.Failure{Count: next.count, Code: k.o.ErrorCode(f.err)}
	shared := backoff
	if u, untried := errors.AsType[Untried](f.err); untried { // not one more; another process may be able to, at once
		next.count, told.Count, shared = max(before.failures(), 1), before.failures(), time.Millisecond
		backoff = min(max(u.TryAfter(), k.backoff(1)), k.o.BackoffMost)
		if before != nil {
			told.Code = k.o.ErrorCode(before.err)
		}
	}
	next.until = f.ended + backoff
	k.now.failure = next
	k.release(f, told, shared)
	k.ended(f, outcomeFailed, &answer[V]{err: &RetryError{After: backoff, Err: f.err}})
}

func (k *keeper[V]) release(f *flight[V], told lease.Failure, backoff time.Duration) {
	if f.token != "" {
		k.member.Ride(lease.Release(f.token, told, backoff))
	}
}

// giveUp releases the lease of a store that closes, unless something was stored.
func (k *keeper[V]) giveUp(f *flight[V]) {
	if f.token == "" || f.outcome != "" {
		return
	}
	_ = k.member.Do(context.WithoutCancel(k.store.ctx), 0, func(ctx context.Context, c *redis.Client) error { // it lapses soon otherwise
		ride, p := lease.Release(f.token, lease.Failure{}, 0), c.Pipeline()
		ride.Send(ctx, p, k.hash)
		_, err := p.Exec(ctx)
		return err
	})
}

// backoff is the pause after the count-th failure in a row.
func (k *keeper[V]) backoff(count int) time.Duration {
	d := min(k.o.BackoffFirst<<min(count-1, 20), k.o.BackoffMost)
	return max(d-rand.N(d/10+1), time.Millisecond)
}
