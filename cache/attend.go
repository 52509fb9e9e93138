package cache

import (
	"time"

	"vitrine/cache/watch"
)

// attend looks at Redis after each change, so that the next read finds memory coherent again, and a
// document declared stale by an operator is fetched without waiting for a read.
func (r *Reader[V]) attend() {
	for {
		select {
		case <-r.store.ctx.Done():
			return
		case <-r.wake:
		}
		if !r.watched.Up() { // everybody is notified when it is back
			r.part()
			continue
		}
		// A look that began before the change may not have seen it.
		if e, err := r.ask(watch.Now()); err == nil && e.wanted && r.paused(watch.Now()) == nil {
			r.fly(r.store.ctx)
		}
	}
}

// samplePause is how often memory is compared with Redis.
const samplePause = 2 * time.Second

// sample compares, at intervals, what memory serves with what Redis holds. No answer depends on it:
// it is there to find unknown mistakes, and to notice what others have written beside the hash.
func (r *Reader[V]) sample() {
	for watch.Sleep(r.store.ctx, watch.Jitter(samplePause)) {
		if r.watched.Up() && r.beside.Swap(false) { // to show what another process holds back
			_, _ = r.ask(watch.Now())
		}
		if e := r.memory.Load(); r.differs(e) && r.drop(e) {
			r.store.log.Error("memory differs from redis, and no change was received that explains it: dropped", "resource", r.key)
			if r.store.events.Incoherent != nil {
				r.store.events.Incoherent(r.key)
			}
		}
	}
}

// differs reports whether memory would serve e although Redis holds something else, with no change on
// its way.
func (r *Reader[V]) differs(e *entry[V]) bool {
	now := watch.Now()
	if !e.holds(now) || e.origin != originStored || now >= e.freshUntil || !r.watched.Trusts(&e.mark, now) || !r.watched.Up() {
		return false
	}
	rec, err := r.read(e.doc.ETag)
	if err != nil || (rec.ETag == e.doc.ETag && rec.FetchedAt == e.fetchedAt && rec.FreshUntil == e.redisFresh) {
		return false
	}
	// The push that explains the difference may be on its way.
	return r.watched.Confirm(r.store.ctx, &e.mark) && r.watched.Trusts(&e.mark, watch.Now())
}
