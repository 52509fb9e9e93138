package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// A view is what the keeper knows as of a moment. It is never modified but for its channels.
type view[V any] struct {
	state[V]
	saw     *poll.Result  // the last poll that was answered, or what the last good file has of it
	asked   bool          // there was one
	sent    time.Duration // of the last one that answers readers: not while a body is being read
	polled  chan struct{} // closed when there is a newer view,
	changed chan struct{} // and when its state is another: who waits for a load is not woken by each poll
}

// A state is what a view has beside the poll.
type state[V any] struct {
	unreachable bool
	doubted     bool // a poll timed out lately: nobody waits for the next
	copy        *cached[V]
	failure     *failure     // of the last load, by any process; nil if it did not fail
	hold        guard.Record // of the document that is held back
	load        *answer[V]   // stays until the next load ends
	loading     bool         // this process loads, or waits for the one that does
	reading     bool         // the body of Redis's document is being read
}

// A failure is never modified.
type failure struct {
	err   error
	count int           // of failures in a row
	until time.Duration // no load is tried before that
	own   bool          // Redis does not know it
	till  int64         // otherwise the end of its backoff by Redis's clock
}

// isHeld reports whether the load brought a document that is held back.
func (f *failure) isHeld() bool { return f != nil && errors.Is(f.err, ErrHeld) }

func (f *failure) failures() int {
	if f == nil {
		return 0
	}
	return f.count
}

// An answer is a load that has ended, for those who asked before it began.
type answer[V any] struct {
	began     time.Duration
	copy      *cached[V] // nil after an error
	discarded bool       // a purge made it void for all others
	err       error
}

// An action is what a visitor gets.
type action int

const (
	doPoll    action = iota // wait for a poll, and decide again
	doAnswer                // from the copy
	doRenew                 // from the copy, and a load in the background
	doWait                  // the document of a load; the copy if that takes too long, or fails
	doFetch                 // the document of a load; an error if that takes too long, or fails
	doDecline               // the last failure
)

// serve is the table:
//
//	view \ copy  fresh   ending  aging  stale                    none
//	too old      poll    poll    poll   poll                     poll
//	known        answer  renew   renew  wait; renew if failing   fetch; decline during the backoff
func serve(known bool, c standing, failing, pausing bool) action {
	switch {
	case !known:
		return doPoll
	case c == copyFresh:
		return doAnswer
	case c == copyEnding, c == copyAging, c == copyStale && failing:
		return doRenew
	case c == copyStale:
		return doWait
	case pausing:
		return doDecline
	}
	return doFetch
}

// Get returns the document. It fails only if there is nothing to serve: with the loader's error,
// wrapped in a [RetryError] while attempts are paused, with [ErrWait], or with ctx's error.
//
// A load that it starts ends with the store, not with ctx, but sees ctx's values; see [Lender].
//
// While the copy in memory is fresh and the last answered poll was sent less than the trust window
// before the call, it takes no lock, allocates nothing and does no I/O.
func (r *Reader[V]) Get(ctx context.Context) (Answer[V], error) {
	asked := poll.Now()
	r.member.Read()
	v := r.view.Load()
	if asked < v.sent+r.store.trust {
		switch v.copy.standing(asked) {
		case copyFresh:
			return v.answer(v.copy, asked, Status{}, false), nil
		case copyEnding:
			if !v.pausing(asked) {
				r.want(ctx)
			}
			return v.answer(v.copy, asked, Status{}, false), nil
		case copyNone, copyStale, copyAging:
		}
	}
	return r.wait(ctx, asked)
}

// wait is Get where the view does not answer at once.
func (r *Reader[V]) wait(ctx context.Context, asked time.Duration) (Answer[V], error) {
	end := r.member.Wait() // who waits reads: the polls must not slow down
	defer end()
	w := waiting[V]{r: r, asked: asked, checked: false}
	for {
		v, now := r.view.Load(), poll.Now()
		a, until, limit, err := w.decide(ctx, v, now)
		if until == nil {
			return a, err
		}
		timer := time.NewTimer(max(limit-now, time.Millisecond))
		select {
		case <-until:
		case <-timer.C:
		case <-ctx.Done():
			err = fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
		case <-r.store.ctx.Done():
			err = errClosed
		}
		timer.Stop()
		if err != nil {
			return a, err
		}
	}
}

// A waiting is a read that waits.
type waiting[V any] struct {
	r       *Reader[V]
	asked   time.Duration
	checked bool   // it has waited for a poll,
	fwd     string // and for a load, for that reason
	began   bool   // it has asked for that load, before others
}

// decide answers from a view, or says what to wait for, and until when.
func (w *waiting[V]) decide(ctx context.Context, v *view[V], now time.Duration) (a Answer[V], until chan struct{}, limit time.Duration, err error) {
	r := w.r
	s := v.copy.standing(now)
	recent, st := v.sent >= w.asked-r.store.trust, Status{}
	known := v.unreachable || v.doubted && s != copyNone || recent && (!v.reading || s != copyNone)
	if !recent {
		st.Detail = DetailRedisAway
	}
	if l := v.load; l != nil && l.began >= w.asked { // whatever was purged, it was purged after that
		if l.copy != nil {
			return v.answer(l.copy, now, w.status(l.copy, l.discarded), false), nil, 0, nil
		} else if s == copyNone {
			return a, nil, 0, l.err
		}
	}
	late := now >= w.asked+r.o.StaleWait
	limit, until = w.asked+r.patience(), v.changed
	switch serve(known, s, v.failure != nil || late, v.pausing(now) && (!v.failure.isHeld() || s != copyNone)) {
	case doPoll:
		if !w.checked {
			r.member.Waited()
		}
		if w.checked, until = true, v.polled; !v.reading {
			r.member.Ask()
		}
	case doAnswer:
		if w.fwd != "" && v.copy.source <= filled && !v.unreachable {
			if v.copy.loaded > w.asked {
				return v.answer(v.copy, now, w.status(v.copy, false), false), nil, 0, nil
			}
			return v.answer(v.copy, now, Status{Fwd: w.fwd, Stored: true, Collapsed: true, Detail: DetailLeaseElsewhere}, false), nil, 0, nil
		}
		return v.answer(v.copy, now, st, w.checked), nil, 0, nil
	case doRenew:
		if !v.pausing(now) {
			r.want(ctx)
		}
		if late && s == copyStale && v.failure == nil && recent {
			st.Detail = DetailSlow
		}
		return v.answer(v.copy, now, st, w.checked), nil, 0, nil
	case doDecline:
		return a, nil, 0, r.declined(v, now)
	case doWait:
		limit = w.asked + r.o.StaleWait
		w.ask(ctx, FwdStale)
	case doFetch:
		w.ask(ctx, FwdMiss)
	}
	if now >= w.asked+r.patience() {
		return a, nil, 0, ErrWait
	}
	return a, until, limit, nil
}

// ask asks for a load.
func (w *waiting[V]) ask(ctx context.Context, fwd string) {
	if began := w.r.want(ctx); w.fwd == "" {
		w.fwd, w.began = fwd, began
	}
}

// status is that of an answer that has waited for a load of this process.
func (w *waiting[V]) status(c *cached[V], discarded bool) Status {
	return Status{Fwd: cmp.Or(w.fwd, FwdMiss), FwdStatus: c.status, Stored: c.source <= filled && !discarded, Collapsed: !w.began}
}

// patience is how long a caller waits with nothing cached: if the lock owner dies, for its successor.
func (r *Reader[V]) patience() time.Duration { return r.o.FetchTimeout + leaseLength + time.Second }

// want asks the keeper for a load, and reports whether nobody had yet.
func (r *Reader[V]) want(ctx context.Context) bool {
	if r.wanted.Load() || !r.wanted.CompareAndSwap(false, true) {
		return false
	}
	values := lend(ctx)
	r.lent.Store(&values)
	poll.Wake(r.woken)
	return true
}

// declined is why there is no answer during a backoff: the failure, or that no load would be tried
// after it.
func (r *Reader[V]) declined(v *view[V], now time.Duration) error {
	failure := &RetryError{After: v.failure.until - now, Err: v.failure.err}
	if cause := r.o.Unable(); cause != nil {
		failure.Err = cause
		if u, ok := errors.AsType[Untried](cause); ok {
			failure.After = max(failure.After, u.TryAfter())
		}
	}
	return failure
}

// pausing reports whether no load is tried, since the last one failed.
func (v *view[V]) pausing(now time.Duration) bool { return v.failure != nil && now < v.failure.until }

// answer is an answer from a copy. A problem with Redis comes before any other detail.
func (v *view[V]) answer(c *cached[V], now time.Duration, s Status, checked bool) Answer[V] {
	s.Stale = now >= c.fresh
	switch {
	case v.unreachable || c.source == local || s.Detail == DetailRedisAway:
		s.Detail = DetailRedisAway
	case c.source == gone:
		s.Detail = DetailRedisLost
	case c.source == refused:
		s.Detail = DetailRedisRefused
	case s.Detail != "" || s.Fwd != "":
	case s.Stale && v.failure.isHeld():
		s.Detail = DetailHeld
	case s.Stale && v.failure != nil:
		s.Detail = DetailIfError
	case s.Stale:
		s.Detail = DetailRevalidate
	case c.doc.RestoredBy != "":
		s.Detail = DetailRestored
	case checked:
		s.Detail = DetailRedis
	default:
		s.Detail = DetailMemory
	}
	return Answer[V]{Value: c.value, Document: c.doc, Status: s}
}
