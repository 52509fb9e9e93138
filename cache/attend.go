package cache

import (
	"time"

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
	r := &Reader[V]{store: s, key: key, o: o, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	r.memory.Store(&entry[V]{})
	r.pause.Store(&pause{})
	r.hash = s.hash(key)
	r.clock.Store(time.Now().UnixNano() - int64(watch.Now())) // until a look tells
	if o.LastGood != "" {                                     // before anything is notified
		r.file, r.unsaved = lastgood.At(o.LastGood, key), make(chan struct{}, 1)
	}
	r.watched = s.watch.Key(key, lease.Beside(s.prefix, key), r.notify)
	if o.LastGood != "" {
		r.recall()
		s.goTask(r.keepFile)
	}
	s.goTask(r.attend)
	s.goTask(r.sample)
	return r, nil
}

// notify is called when a key changed, and when the link to Redis was lost or is back. Who waits
// for another process looks again, and so does the attendant; if only the books changed, later where
// the copy is fresh: another process may want it fetched, or hold its successor back.
func (r *Reader[V]) notify(e watch.Event) {
	switch e {
	case watch.Changed:
		r.store.log.Debug("change received", "resource", r.key)
	case watch.Beside:
	case watch.Lost:
		r.part()
	}
	watch.Signal(r.changed)
	if e == watch.Beside && r.memory.Load().standing(watch.Now()) == copyFresh {
		r.beside.Store(true)
		return
	}
	watch.Signal(r.wake)
}

// attend looks at Redis after each change, so that the next read finds memory coherent again, and a
// document declared stale by an operator is fetched without waiting for a read; so is any that is
// due, with Always, or if another process wants that.
func (r *Reader[V]) attend() {
	last := -retryPause // when a document that was due was last asked for
	for {
		timer := time.NewTimer(r.dueIn(watch.Now(), last))
		select {
		case <-r.store.ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
			r.lookAgain()
		case <-timer.C:
		}
		timer.Stop()
		if now := watch.Now(); r.dueIn(now, last) <= 0 {
			last = now
			r.fly(r.store.ctx)
		}
	}
}

// lookAgain looks at Redis after a change.
func (r *Reader[V]) lookAgain() {
	if !r.watched.Up() { // everybody is notified when it is back
		r.part()
		return
	}
	// A look that began before the change may not have seen it.
	if e, err := r.ask(watch.Now()); err == nil && e.wanted && r.paused(watch.Now()) == nil {
		r.fly(r.store.ctx)
	}
}

// dueIn is in what time a document is to be asked for that nobody reads. While a flight is under
// way, its end wakes the attendant.
func (r *Reader[V]) dueIn(now, last time.Duration) time.Duration {
	r.mu.Lock()
	busy := r.flight != nil
	r.mu.Unlock()
	e := r.memory.Load()
	if wanted := now < e.wantedUntil && r.o.Unable() == nil; busy || !r.o.Always && !wanted {
		return time.Hour
	}
	at := last + retryPause
	if e.holds(now) {
		at = max(at, e.ahead)
	}
	if r.paused(now) != nil {
		at = max(at, r.pause.Load().until)
	}
	return at - now
}

// sample compares, at intervals, what memory serves with what Redis holds. No answer depends on it:
// it is there to find unknown mistakes, and to notice what others have written beside the hash.
func (r *Reader[V]) sample() {
	for watch.Sleep(r.store.ctx, watch.Jitter(samplePause)) {
		if r.beside.Swap(false) || !r.watched.Listening() {
			watch.Signal(r.wake)
		}
		if e := r.memory.Load(); r.differs(e) && r.drop(e) {
			r.store.log.Error("memory differs from redis, and no change was received that explains it: dropped", "resource", r.key)
			if r.store.events.Incoherent != nil {
				r.store.events.Incoherent(r.key)
			}
		}
	}
}

// differs reports whether memory would serve e although Redis holds something else, with no change
// on its way.
func (r *Reader[V]) differs(e *entry[V]) bool {
	now := watch.Now()
	if !e.holds(now) || e.origin != originStored || now >= e.freshUntil || !r.watched.Trusts(&e.mark, now) || !r.watched.Up() {
		return false
	}
	rec, err := r.read(e.doc.ETag)
	fetched := max(rec.FetchedAt, 0) == e.fetchedAt && rec.FreshUntil == e.redisFresh
	if err != nil || rec.ETag == e.doc.ETag && (fetched || e.pinned() && rec.Pinned()) {
		return false
	}
	// The push that explains the difference may be on its way, or be of the books: a look follows.
	return r.watched.Confirm(r.store.ctx, &e.mark) && r.watched.Trusts(&e.mark, watch.Now()) && !r.watched.Since(&e.mark).Beside
}
