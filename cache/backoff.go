package cache

import (
	"errors"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// Untried is the error of a loader that did not try, such as a circuit breaker's.
type Untried interface {
	error
	TryAfter() time.Duration // when it will, or 0 if that is unknown
}

// after is the pause after a failure that follows count others in a row. A load that was not tried
// is not one more, and is due when it will be.
func (r *Reader[V]) after(count int, cause error) pause {
	p := pause{count: count + 1, err: cause}
	if u, ok := errors.AsType[Untried](cause); ok {
		p.count = max(count, 1)
		p.length = min(max(u.TryAfter(), r.backoff(1)), r.o.BackoffMost)
	} else {
		p.length = r.backoff(p.count)
	}
	return p
}

// backoff is the pause after the count-th failure in a row.
func (r *Reader[V]) backoff(count int) time.Duration {
	d := min(r.o.BackoffFirst, r.o.BackoffMost)
	for i := 1; i < count && d < r.o.BackoffMost; i++ {
		d += min(d, r.o.BackoffMost-d)
	}
	return max(min(watch.Jitter(d), r.o.BackoffMost), time.Millisecond)
}

// mood is what is known of the loader.
func (r *Reader[V]) mood(now time.Duration) mood {
	switch {
	case r.pause.Load().count == 0:
		return cmsWell
	case r.paused(now) == nil:
		return cmsFailing
	}
	return cmsPausing
}

// paused is the failure whose pause is not over; nil if a load can be tried. A document that is held
// back pauses only who has a copy to serve instead.
func (r *Reader[V]) paused(now time.Duration) error {
	p := r.pause.Load()
	if now >= p.until || r.watched.Unseen(&p.mark) || p.isHeld() && !r.memory.Load().holds(now) {
		return nil
	}
	return &RetryError{After: p.until - now, Err: p.err}
}

// declined is why nobody gets an answer during a pause: the failure, or that no load would be tried
// after it. It is nil once the pause is over.
func (r *Reader[V]) declined(now time.Duration) error {
	failure := r.paused(now)
	retry, ok := errors.AsType[*RetryError](failure)
	cause := r.o.Unable()
	if !ok || cause == nil {
		return failure
	}
	after := retry.After
	if u, ok := errors.AsType[Untried](cause); ok {
		after = max(after, u.TryAfter())
	}
	return &RetryError{After: after, Err: cause}
}

// noteFailure learns from Redis whether the last attempt to load, by any process, failed.
func (r *Reader[V]) noteFailure(rec *lease.Record, mark watch.Mark) {
	switch {
	case rec.Failure.Count > 0:
		p := &pause{count: rec.Failure.Count, until: mark.At() + rec.Left, err: r.o.CodeError(rec.Failure.Code), mark: mark}
		if rec.Failure.Code == lease.CodeHeld {
			p.err = ErrHeld
		}
		own := r.pause.Load()
		if r.refusal.Load() != nil && (own.count == 0 && rec.Left == 0 || own.until > p.until) {
			return // what this process has loaded since then, or failed to, could not be recorded
		}
		if own.count == p.count && (own.until-p.until).Abs() < leaseMargin {
			p.err = own.err // this process may know more than the record
		}
		r.pause.Store(p)
	case rec.Lease == "" && r.refusal.Load() == nil:
		r.pause.Store(&pause{})
	}
}

// rest has no load tried until the pause is over.
func (r *Reader[V]) rest(p pause) {
	r.pause.Store(&p)
	r.see(false)
}
