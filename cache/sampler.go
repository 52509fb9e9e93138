package cache

import (
	"context"
	"time"
)

// samplePause is how often memory is compared with Redis.
const samplePause = 2 * time.Second

// sample compares, at intervals, what memory serves with what Redis holds. Nothing depends on it: it is there to find
// the mistake that nobody thought of.
func (r *Reader[V]) sample() {
	for sleep(r.store.ctx, jitter(samplePause)) {
		if r.differs() {
			r.store.log.Error("memory differs from redis, and nothing was heard that explains it: dropped", "resource", r.key)
			if r.store.events.Incoherent != nil {
				r.store.events.Incoherent(r.key)
			}
			r.invalidate()
		}
	}
}

// differs says that memory would serve something else than Redis holds, though no invalidation is under way.
func (r *Reader[V]) differs() bool {
	e, now := r.memory.Load(), r.store.now()
	if e == nil || now >= e.fresh || !r.coherent(e, now) || !r.store.Up() {
		return false
	}
	ctx, cancel := context.WithTimeout(r.store.ctx, r.store.timeout)
	defer cancel()
	rec, err := r.store.look(ctx, r.key, e.doc.ETag)
	if err != nil || (rec.etag == e.doc.ETag && rec.fetchedAt == e.fetchedAt && rec.freshUntil == e.freshUntil) {
		return false
	}
	// The push that explains the difference may be on its way: it is late when a heartbeat sent from now on has been
	// answered and it still has not come.
	asked := r.store.now()
	for r.store.heard(r.store.now()) {
		if r.store.heardSince(asked) {
			return r.memory.Load() == e && r.coherent(e, r.store.now())
		}
		if !sleep(r.store.ctx, heartbeat) {
			return false
		}
	}
	return false
}

// heardSince says that every purge acknowledged before t has reached memory.
func (s *Store) heardSince(t time.Duration) bool {
	ws := s.watchers.Load()
	if ws == nil {
		return false
	}
	for _, w := range *ws {
		if w.last.Load() < int64(t) {
			return false
		}
	}
	return true
}
