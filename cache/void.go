package cache

import (
	"context"
	"errors"
	"time"
)

// orphan notes a lease that Redis may have given although the answer did not come: the next look gives it back, so that
// nobody waits for a fetch that nobody makes.
func (r *Reader[V]) orphan(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphaned = token
}

// adopt gives the lease back that a look has found to be an orphan.
func (r *Reader[V]) adopt(found string) {
	r.mu.Lock()
	mine := found != "" && found == r.orphaned
	if mine {
		r.orphaned = ""
	}
	r.mu.Unlock()
	if mine {
		r.handBack(lease{token: found})
	}
}

// errVoid ends a load whose result would be refused.
var errVoid = errors.New("purged while it was fetched")

// guarded is the load under way in this process, if there is one.
type guarded struct {
	token string
	since time.Duration // on the store's clock: Redis had the token when this moment came
	end   context.CancelCauseFunc
}

// guard lets a look that finds the lease gone end the load that was made under it, so that a purge during a slow fetch
// does not wait for what nobody may have, and the CMS is not asked twice at once for longer than it takes to hear of it.
func (r *Reader[V]) guard(ctx context.Context, l lease) (loading context.Context, unguard func()) {
	loading, end := context.WithCancelCause(ctx)
	r.mu.Lock()
	r.loading = guarded{token: l.token, since: r.store.now(), end: end}
	r.mu.Unlock()
	return loading, func() {
		r.mu.Lock()
		r.loading = guarded{}
		r.mu.Unlock()
		end(nil)
	}
}

// void ends the load under way if a look that began at began, after its lease was taken, shows that its fill would be
// refused (hard purge) or marked stale (soft).
func (r *Reader[V]) void(rec record, began time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.loading
	if g.token == "" || began <= g.since {
		return
	}
	if rec.lease != g.token || (rec.hasFreshUntil && rec.freshUntil <= 0) {
		g.end(errVoid)
	}
}
