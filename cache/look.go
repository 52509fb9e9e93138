package cache

import (
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// asking is one look at Redis, shared by several goroutines.
type asking[V any] struct {
	done  chan struct{}
	at    time.Duration
	entry *entry[V]
	err   error
}

// ask looks at Redis, or shares a look that began after since.
func (r *Reader[V]) ask(since time.Duration) (*entry[V], error) {
	for {
		r.mu.Lock()
		a := r.asking
		if a == nil {
			a = &asking[V]{done: make(chan struct{}), at: watch.Now()}
			r.asking = a
			r.mu.Unlock()
			a.entry, a.err = r.look()
			r.mu.Lock()
			r.asking = nil
			r.mu.Unlock()
			close(a.done)
			return a.entry, a.err
		}
		r.mu.Unlock()
		<-a.done
		if a.err != nil || a.at > since {
			return a.entry, a.err
		}
	}
}

// look reads what Redis holds and admits it to memory.
//
// The interleavings that the mark, taken before the read, guards against:
//
//  1. read, purge received, admit: the entry carries an old mark and is never served.
//  2. read, connection lost, purge not received, connection back, admit: the same by the period.
//  3. purge, refill by another, read of the new copy, the purge's push received late: the new copy
//     carries the old mark and is checked once more; nothing wrong is served.
//  4. two reads, the older admitted last: it carries an older mark, or the push that separates the
//     two is still on its way and removes it within the bound.
func (r *Reader[V]) look() (*entry[V], error) {
	var rec lease.Record
	var mark watch.Mark
	var run string
	prev := r.memory.Load()
	for {
		run, mark = r.watched.Run(), r.watched.Mark()
		err := r.watched.Do(r.store.ctx, true, func(c redis.Cmdable) (err error) {
			rec, err = r.hash.Look(r.store.ctx, c, prev.etag())
			return err
		})
		if err != nil {
			return nil, err
		}
		if now := r.watched.Run(); now == run || run == "" {
			run = now
			break // otherwise another process answers by now: was it this one?
		}
	}
	r.void(&rec, mark.At())
	r.adopt(&rec, &mark)
	return r.learn(prev, &rec, mark, run), nil
}

// adopt releases a lease that a look has found to be an orphan.
func (r *Reader[V]) adopt(rec *lease.Record, mark *watch.Mark) {
	r.mu.Lock()
	mine := rec.Lease != "" && rec.Lease == r.orphaned
	if mine {
		r.orphaned = ""
	}
	r.mu.Unlock()
	if !mine {
		return
	}
	// While it lasted nothing was purged, so that what the look found still holds.
	if outcome, after, err := r.release(r.store.ctx, lease.Lease{Record: *rec, Token: rec.Lease}, lease.Word{}); err == nil && outcome == lease.Released {
		mark.Vouch(&after)
	}
}
