package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// Get returns the document. It fails only if there is nothing to serve: with the loader's error,
// wrapped in a [RetryError] while attempts are paused, with [ErrWait], or with ctx's error.
//
// A load that it starts ends with the store, not with ctx, but sees ctx's values; see [Lender].
//
// While the copy in memory is fresh and known to be coherent it takes no lock, allocates nothing
// and does no I/O.
func (r *Reader[V]) Get(ctx context.Context) (Answer[V], error) {
	now := watch.Now()
	e := r.memory.Load()
	r.store.watch.NoteRead(now)
	if now < e.freshUntil && r.watched.Trusts(&e.mark, now) {
		if now >= e.ahead {
			r.refresh(ctx)
		}
		return e.answer(Status{Detail: e.detail(linkTrusted)}), nil
	}
	return r.get(ctx, now)
}

// get is Get when memory alone does not suffice, for a call made at the given time: see [serve]. It
// waits for a [flight], which may end without a document that it can use; then it decides again.
func (r *Reader[V]) get(ctx context.Context, asked time.Duration) (a Answer[V], err error) {
	var waited Status   // on a hit after another process's flight
	void := false       // the load was: a look that began before the purge is not worth waiting for
	var found *entry[V] // by the last flight
	for try := 0; ; try++ {
		now := watch.Now()
		e, l := r.seen(now)
		if (l == linkUnsure || e.standing(now) == copyNone) && found != nil && asked <= found.mark.At() { // purged since
			e, l = found, linkLooked
		}
		do := serve(l, e.standing(now), r.mood(now))
		if void {
			do = doFetch
		}
		if do == doLook {
			e, l = r.asked(ctx, now)
			now = watch.Now()
			do = serve(l, e.standing(now), r.mood(now))
		}
		switch standing := e.standing(now); do {
		case doAnswer, doRenew:
			if do == doRenew {
				r.refresh(ctx)
			}
			reason := DetailRevalidate
			if standing == copyStale {
				reason = DetailIfError
			}
			a = r.fromMemory(e, l, standing, reason)
			if waited.Fwd != "" && !a.Status.Stale && e.origin == originStored && l != linkAway {
				a.Status = waited
			}
			return a, nil
		case doDecline:
			if err := r.declined(now); err != nil {
				return a, err
			}
			continue // it is over
		}
		if try > 2 && !watch.Sleep(ctx, askPause) { // keep any loop slow
			return a, fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
		}
		f, joined := r.fly(ctx)
		st, patience, late := Status{Fwd: FwdMiss}, r.patience(), ""
		if do == doWait {
			st.Fwd, patience, late = FwdStale, r.o.StaleWait, DetailSlow
		}
		ended, failure := r.wait(ctx, f, asked+patience)
		switch {
		case failure == nil && f.entry != nil && (asked <= f.at || asked <= f.at+r.store.watch.Trust() && !r.watched.Unseen(&f.entry.mark)):
			st.FwdStatus, st.Stored, st.Detail, st.Collapsed = f.status.FwdStatus, f.status.Stored, f.status.Detail, joined
			return f.entry.answer(st), nil
		case failure == nil:
			if void, found = f.void, f.found; f.elsewhere {
				waited = Status{Fwd: st.Fwd, Stored: true, Collapsed: true, Detail: DetailLeaseElsewhere}
			}
			continue
		case ended:
			late = DetailIfError
		}
		// The copy held when the wait began may have been purged since: look again.
		now = watch.Now()
		if e, l = r.seen(now); l == linkUnsure {
			e, l = r.asked(ctx, now)
		}
		switch standing := e.standing(watch.Now()); {
		case standing != copyNone:
			return r.fromMemory(e, l, standing, late), nil
		case do != doWait || !errors.Is(failure, ErrWait):
			return a, failure
		} // there was a copy: who has none waits longer
	}
}

// wait waits for a flight, and returns its error; or why it has not ended in time.
func (r *Reader[V]) wait(ctx context.Context, f *flight[V], until time.Duration) (ended bool, failure error) {
	timer := time.NewTimer(until - watch.Now())
	defer timer.Stop()
	select {
	case <-f.done:
		return true, f.err
	case <-timer.C:
		return false, ErrWait
	case <-ctx.Done():
		return false, fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
	}
}

// seen is the copy in memory, and how well it is known. While Redis is unreachable it is none if it
// may have been purged.
func (r *Reader[V]) seen(now time.Duration) (*entry[V], link) {
	e := r.memory.Load()
	switch {
	case r.watched.Trusts(&e.mark, now):
		return e, linkTrusted
	case !r.watched.Up():
		return r.alone(), linkAway
	case r.watched.Recent(&e.mark, now):
		return e, linkLooked
	}
	return e, linkUnsure
}

// asked is the same after a look, which other requests may share.
func (r *Reader[V]) asked(ctx context.Context, now time.Duration) (*entry[V], link) {
	_, end := lease.Span(ctx, "look", r.key)
	e, err := r.ask(now - r.store.watch.Trust())
	end(err)
	if err != nil {
		return r.alone(), linkAway
	}
	return e, linkLooked
}

// fromMemory is the answer from the copy. If it is stale, a problem with Redis comes before any other
// reason.
func (r *Reader[V]) fromMemory(e *entry[V], l link, s standing, reason string) Answer[V] {
	detail := e.detail(l)
	switch {
	case s >= copyEnding:
		return e.answer(Status{Detail: detail})
	case l == linkAway || e.origin != originStored:
		reason = detail
	case r.pause.Load().isHeld():
		reason = DetailHeld
	case r.pause.Load().count > 0:
		reason = DetailIfError
	}
	return e.answer(Status{Stale: true, Detail: reason})
}
