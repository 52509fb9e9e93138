package cache

import (
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/watch"
)

// NewReader makes the reader of key, of which a store has one. Its fetches and its attendant end
// with the store.
func NewReader[V any](s *Store, key string, o ReaderOptions[V]) (*Reader[V], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := s.claim(key); err != nil {
		return nil, err
	}
	r := &Reader[V]{store: s, key: key, o: o, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	r.hash = s.hash(key, 2*max(o.FetchTimeout+leaseMargin, o.BackoffMost)+time.Minute)
	r.watched = s.watch.Key(key, r.notify)
	if o.LastGood != "" {
		r.file, r.unsaved = lastgood.At(o.LastGood, key), make(chan struct{}, 1)
		r.recall()
		s.goTask(r.save)
	}
	s.goTask(r.attend)
	s.goTask(r.sample)
	return r, nil
}

// attend looks at Redis after each change, so that the next read finds memory coherent again, and a
// document declared stale by an operator is fetched without waiting for a read.
func (r *Reader[V]) attend() {
	for {
		select {
		case <-r.store.ctx.Done():
			return
		case <-r.wake:
		}
		if r.watched.Up() { // otherwise everybody is notified when it is back
			// A look that began before the change may not have seen it.
			if e, err := r.ask(watch.Now()); err == nil && e.wanted && r.paused(watch.Now()) == nil {
				r.fly(r.store.ctx)
			}
		}
		r.unsave()
	}
}

// samplePause is how often memory is compared with Redis.
const samplePause = 2 * time.Second

// sample compares, at intervals, what memory serves with what Redis holds. Nothing depends on it:
// it is there to find unknown mistakes.
func (r *Reader[V]) sample() {
	for watch.Sleep(r.store.ctx, watch.Jitter(samplePause)) {
		if r.differs() {
			r.store.log.Error("memory differs from redis, and no change was received that explains it: dropped", "resource", r.key)
			if r.store.events.Incoherent != nil {
				r.store.events.Incoherent(r.key)
			}
			r.memory.Store(nil)
		}
	}
}

// differs reports whether memory would serve something other than Redis holds, with no change on
// its way.
func (r *Reader[V]) differs() bool {
	e, now := r.memory.Load(), watch.Now()
	if !e.holds(now) || e.unstored || now >= e.freshUntil || !r.watched.Trusts(&e.mark, now) || !r.watched.Up() {
		return false
	}
	rec, err := r.read(e.doc.ETag)
	if err != nil || (rec.ETag == e.doc.ETag && rec.FetchedAt == e.redis.fetchedAt && rec.FreshUntil == e.redis.freshUntil) {
		return false
	}
	// The push that explains the difference may be on its way.
	return r.watched.Quiet(r.store.ctx, &e.mark, &e.mark, 0) && r.memory.Load() == e && r.watched.Trusts(&e.mark, watch.Now())
}
