package cache

import (
	"context"
	"fmt"
	"time"
)

// Get gives the document. It fails only when there is nothing that may be served: with the loader's error, wrapped in
// a [RetryError] while attempts are paused, with [ErrWait], or with ctx's error.
//
// A load that it starts ends with the store and not with ctx, but sees ctx's values; see [Lender].
//
// While the copy in memory is fresh and known to be coherent it takes no lock, allocates nothing and does no I/O.
func (r *Reader[V]) Get(ctx context.Context) (Answer[V], error) {
	now := r.store.now()
	// The order matters: that purges are being heard is established first, and only then that none was heard.
	if e := r.memory.Load(); e != nil && now < e.fresh && r.coherent(e, now) {
		if now >= e.ahead {
			r.refresh(ctx)
		}
		return Answer[V]{Value: e.value, Document: e.doc, Status: Status{Hit: true, Detail: DetailMemory}}, nil
	}
	return r.get(ctx)
}

// coherent says that e is what Redis holds, but for purges acknowledged within the last trustWindow.
func (r *Reader[V]) coherent(e *entry[V], now time.Duration) bool {
	return r.store.heard(now) && e.epoch == r.store.epoch.Load() && e.gen == r.gen.Load()
}

// get is Get when memory alone will not do.
func (r *Reader[V]) get(ctx context.Context) (Answer[V], error) {
	for {
		a, late, err := r.try(ctx)
		if !late {
			return a, err
		}
	}
}

// try is one attempt. It is late when what it waited for was decided longer than trustWindow ago, so that a purge may
// have been acknowledged since: a process that was held up between the two, not a slow CMS.
func (r *Reader[V]) try(ctx context.Context) (a Answer[V], late bool, err error) {
	began := time.Now()
	e, detail := r.current()
	traceLook(ctx, r.key, began, detail)
	now := r.store.now()
	switch {
	case e == nil:
	case now < e.fresh:
		if now >= e.ahead {
			r.refresh(ctx)
		}
		return e.answer(Status{Hit: true, Detail: detail}), false, nil
	case now < e.revalidate:
		r.refresh(ctx)
		return e.answer(Status{Hit: true, Stale: true, Detail: r.stale(detail, DetailRevalidate)}), false, nil
	case now < e.failing && r.failing.Load():
		// The CMS fails already: nobody is made to wait for it to fail again.
		r.refresh(ctx)
		return e.answer(Status{Hit: true, Stale: true, Detail: r.stale(detail, DetailIfError)}), false, nil
	}

	f, joined := r.fly(ctx)
	// Longer than a lease lasts: where its holder has died, whoever came with it waits for its successor's document, and
	// is not sent away in the moment in which that fetch begins.
	wait, detail := r.policy.Load().FetchTimeout+2*leaseMargin, ""
	fwd := FwdMiss
	if e != nil {
		fwd = FwdStale
		if now < e.failing {
			wait, detail = r.o.StaleWait, DetailSlow
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var failure error
	select {
	case <-f.done:
		if f.err == nil {
			st := f.status
			if !st.Hit {
				st.Fwd, st.Collapsed = fwd, st.Collapsed || joined
			}
			return f.entry.answer(st), r.store.now()-f.at > trustWindow, nil
		}
		failure, detail = f.err, DetailIfError
	case <-timer.C:
		failure = ErrWait
	case <-ctx.Done():
		failure = fmt.Errorf("waiting for %s: %w", r.key, context.Cause(ctx))
	}
	// What was held when the wait began may have been purged since: look again.
	if e, at := r.current(); e != nil && r.store.now() < e.failing {
		return e.answer(Status{Hit: true, Stale: r.store.now() >= e.fresh, Detail: r.stale(at, detail)}), false, nil
	}
	return a, false, failure
}

// stale is the reason for a stale answer: that this process is on its own is told before any other.
func (r *Reader[V]) stale(from, reason string) string {
	switch {
	case from == DetailRedisAway:
		return from
	case r.failing.Load():
		return DetailIfError
	}
	return reason
}

func (e *entry[V]) answer(st Status) Answer[V] {
	return Answer[V]{Value: e.value, Document: e.doc, Status: st}
}
