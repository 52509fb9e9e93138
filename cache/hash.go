package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// acquire looks at Redis and takes the lease, if it is free and a fetch is due. Held is what the look
// has found, with a mark from before it.
func (r *Reader[V]) acquire(ctx context.Context) (l lease.Lease, held *entry[V], err error) {
	prev, run := r.memory.Load(), r.watched.Run()
	q := lease.Request{
		Have: prev.etag(), Token: r.store.token(), Length: r.leaseLength(), TTL: r.o.TTL, Source: r.o.Source, Damaged: prev.damaged(),
		Lost: prev.lostOnly(),
	}
	mark, err := r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		l, err = r.hash.Acquire(ctx, c, q)
		return l.Outcome == lease.Granted, err
	})
	if err != nil {
		return l, nil, err
	}
	if run != "" && r.watched.Run() != run { // which process was it?
		held = (*entry[V])(nil).in(heldIn(&l.Record, ""))
		held.mark = mark
		return l, held, nil
	}
	return l, r.learn(prev, &l.Record, mark, r.watched.Run()), nil
}

func (r *Reader[V]) fill(ctx context.Context, l lease.Lease, d lease.Document) (wrote lease.Filled, mark watch.Mark, err error) {
	mark, err = r.watched.Write(ctx, false, func(c redis.Cmdable) (bool, error) {
		wrote, err = r.hash.Fill(context.WithoutCancel(ctx), c, l, d)
		return wrote.Outcome == lease.Stored || wrote.Outcome == lease.Soft, err
	})
	return wrote, mark, err
}

// release gives the lease back; without a word, and if that fails, it expires.
func (r *Reader[V]) release(ctx context.Context, l lease.Lease, w lease.Word) (outcome lease.Outcome, mark watch.Mark, err error) {
	ctx = context.WithoutCancel(ctx)
	restored := false
	mark, err = r.watched.Write(ctx, true, func(c redis.Cmdable) (bool, error) {
		outcome, restored, err = r.hash.Release(ctx, c, l, w)
		return outcome == lease.Released || outcome == lease.Soft, err
	})
	if restored {
		r.store.log.Info("the last good copy is back in redis", "resource", r.key)
	}
	return outcome, mark, err
}

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
//     two is still on its way and removes it within the bound. What this process has stored since the
//     read began is kept: see entry.before.
func (r *Reader[V]) look() (*entry[V], error) {
	var rec lease.Record
	var mark watch.Mark
	var run string
	prev := r.memory.Load()
	for try := 0; ; try++ {
		run, mark = r.watched.Run(), r.watched.Mark()
		var err error
		if rec, err = r.read(prev.etag()); err != nil {
			return nil, err
		}
		if now := r.watched.Run(); now == run || run == "" {
			run = now
			break // otherwise another process answers by now: was it this one?
		}
		if try == 2 {
			return nil, errors.New("another process with each look")
		}
	}
	r.void(&rec, mark.At())
	return r.learn(prev, &rec, mark, run), nil
}

// read reads the hash, with the body unless its etag is have.
func (r *Reader[V]) read(have string) (rec lease.Record, err error) {
	err = r.watched.Do(r.store.ctx, func(c redis.Cmdable) (err error) {
		rec, err = r.hash.Look(r.store.ctx, c, have)
		return err
	})
	return rec, err
}
