package cache

import (
	"context"
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
	if e != nil && r.watched.Trusts(&e.mark, now) && now < e.freshUntil {
		if now >= e.ahead {
			r.refresh(ctx)
		}
		return Answer[V]{Value: e.value, Document: e.doc, Status: Status{Detail: e.detail}}, nil
	}
	return r.get(ctx, now)
}

// get is Get when memory alone does not suffice, for a call made at the given time. It waits for a
// [flight], which may end without a document that it can use; then it looks again.
func (r *Reader[V]) get(ctx context.Context, asked time.Duration) (a Answer[V], err error) {
	var timeout <-chan time.Time
	var waited Status // on a hit after a wait
	void := false     // the awaited document was purged: a look that began before that is not worth waiting for
	for try := 0; ; try++ {
		var e *entry[V]
		var detail string
		if !void {
			e, detail = r.current(ctx)
		}
		now := watch.Now()
		holds := e.holds(now)
		switch {
		case void:
		case !holds:
			if err := r.paused(now); err != nil {
				return a, err
			}
		case now < e.freshUntil:
			if now >= e.ahead {
				r.refresh(ctx)
			}
			if waited.Fwd != "" && (detail == DetailRedis || detail == DetailMemory) {
				return e.answer(waited), nil
			}
			return e.answer(Status{Detail: detail}), nil
		case now < e.revalidateUntil:
			r.refresh(ctx)
			return e.answer(r.stale(detail, DetailRevalidate)), nil
		case r.failing():
			// The CMS is failing: do not wait for it to fail again.
			r.refresh(ctx)
			return e.answer(r.stale(detail, DetailIfError)), nil
		}
		if try > 2 && !watch.Sleep(ctx, askPause) { // keep any loop slow
			return a, fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
		}

		f, joined := r.fly(ctx)
		fwd, wait, late := FwdMiss, r.patience(), ""
		if holds {
			fwd, wait, late = FwdStale, r.o.StaleWait, DetailSlow
		}
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop() //nolint:revive // once: see timeout
			timeout = timer.C
		}
		var failure error
		select {
		case <-f.done:
			if f.err == nil && f.entry != nil && asked <= f.at+r.store.watch.Trust() {
				st := f.status
				st.Fwd, st.Collapsed = fwd, joined
				return f.entry.answer(st), nil
			}
			if f.err == nil {
				void = f.void
				if f.elsewhere {
					waited = Status{Fwd: fwd, Stored: true, Collapsed: true, Detail: DetailLeaseElsewhere}
				}
				continue
			}
			failure, late = f.err, DetailIfError
		case <-timeout:
			failure = ErrWait
		case <-ctx.Done():
			failure = fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
		}
		// The copy held when the wait began may have been purged since: look again.
		if e, at := r.current(ctx); e.holds(watch.Now()) {
			if watch.Now() < e.freshUntil {
				return e.answer(Status{Detail: at}), nil
			}
			return e.answer(r.stale(at, late)), nil
		}
		return a, failure
	}
}

// stale is the status of a stale answer: a problem with Redis comes before any other reason.
func (r *Reader[V]) stale(from, reason string) Status {
	switch {
	case from == DetailRedisAway || from == DetailRedisRefused || from == DetailRedisLost:
		reason = from
	case r.failing():
		reason = DetailIfError
	}
	return Status{Stale: true, Detail: reason}
}

func (e *entry[V]) answer(st Status) Answer[V] {
	return Answer[V]{Value: e.value, Document: e.doc, Status: st}
}

// current is the entry usable now, and the detail of an answer from it; nil if nothing is known.
//
// While Redis is unreachable that is the copy in memory, unless it may have been purged.
func (r *Reader[V]) current(ctx context.Context) (*entry[V], string) {
	now, e := watch.Now(), r.memory.Load()
	if e != nil && r.watched.Trusts(&e.mark, now) {
		return e, e.detail
	}
	if r.watched.Up() {
		if e == nil || !r.watched.Recent(&e.mark, now) {
			_, end := lease.Span(ctx, "look", r.key) // which other requests may share
			var err error
			e, err = r.ask(now - r.store.watch.Trust())
			end(err)
			if err != nil {
				return r.uncoordinated(), DetailRedisAway
			}
		}
		if e.unstored || e.lost() {
			return e, e.detail
		}
		return e, DetailRedis
	}
	return r.uncoordinated(), DetailRedisAway
}

// uncoordinated is the entry usable while Redis is unreachable.
func (r *Reader[V]) uncoordinated() *entry[V] {
	if e := r.memory.Load(); e != nil && !r.unexplained(e) {
		return e
	}
	return nil
}

// unexplained reports whether a change was received since e was read that no write of this process
// explains. What others write to a Redis that has restarted since then does not concern e.
func (r *Reader[V]) unexplained(e *entry[V]) bool {
	if run := r.watched.Run(); e.redis.run != run {
		return r.watched.WithdrawnBefore(run, &e.mark)
	}
	return r.watched.Withdrawn(&e.mark)
}
