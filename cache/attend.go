package cache

import (
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
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
	r := &Reader[V]{store: s, key: key, o: o, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	r.hash = s.hash(key, 2*max(o.FetchTimeout+leaseMargin, o.BackoffMost)+time.Minute)
	r.watched = s.watch.Key(key, r.notify)
	if o.LastGood != "" {
		r.file, r.unsaved = lastgood.At(o.LastGood, key), make(chan struct{}, 1)
		r.recall()
		if !s.goTask(r.save) {
			return nil, errClosed
		}
	}
	if !s.goTask(r.attend) || !s.goTask(r.sample) {
		return nil, errClosed
	}
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
			if e, err := r.ask(watch.Now()); err != nil {
				r.watched.Fail(err)
			} else if e.soft {
				r.fly(r.store.ctx)
			}
		}
		if r.unsaved != nil && r.withdrawn() {
			r.unsave()
		}
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
	var rec lease.Record
	err := r.watched.Do(r.store.ctx, true, func(c redis.Cmdable) (err error) {
		rec, err = r.hash.Look(r.store.ctx, c, e.doc.ETag)
		return err
	})
	if err != nil || (rec.ETag == e.doc.ETag && rec.FetchedAt == e.redis.fetchedAt && rec.FreshUntil == e.redis.freshUntil) {
		return false
	}
	// The push that explains the difference may be on its way: it is missing if it has not arrived
	// when a ping sent from now on has been answered.
	for asked := watch.Now(); r.watched.Trusts(&e.mark, watch.Now()); {
		if r.watched.HeardSince(asked) {
			return r.memory.Load() == e && r.watched.Trusts(&e.mark, watch.Now())
		}
		if !watch.Sleep(r.store.ctx, r.store.bound/5) {
			return false
		}
	}
	return false
}
