package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

const (
	// samplePause is how often memory is compared with Redis.
	samplePause = 2 * time.Second
	// retryPause is how often a process that cannot load asks whether another is loading, and how
	// often the attendant asks for a document that is due.
	retryPause = 100 * time.Millisecond
	// wantLasts is for how long a process that cannot load wants another to. Without tracking these
	// notice when they sample.
	wantLasts = samplePause + time.Second
	// callPause is the pause before Redis is asked again for what it refused, or did not answer.
	callPause = time.Second
	// askPause is the minimum time between two reads that ask for a refresh.
	askPause = 20 * time.Millisecond
	// leaseMargin is how much longer a lease lasts than its load can take, for the calls to Redis
	// around it.
	leaseMargin = time.Second
)

// A Reader reads one resource through memory and Redis. Make it with [NewReader]; it lives as long
// as its store.
type Reader[V any] struct {
	store   *Store
	key     string
	o       ReaderOptions[V]
	hash    *lease.Hash
	watched *watch.Key

	memory   atomic.Pointer[entry[V]]
	pause    atomic.Pointer[pause]  // after a failed load; the zero value after a successful one
	clock    atomic.Int64           // Redis's less that of watch.Now, which nobody sets, ns
	beside   atomic.Bool            // the books changed, and nobody has looked since
	size     atomic.Int64           // of the last body that was loaded, bytes
	nextAsk  atomic.Int64           // when a read may ask for a refresh again
	refusal  atomic.Pointer[string] // the operation that Redis refused last; nil: it refuses none
	wake     chan struct{}          // capacity 1: wakes the attendant
	changed  chan struct{}          // capacity 1: wakes the flight that waits for another process's
	carrying atomic.Bool            // what an operator wants restored is being restored
	giving   atomic.Bool            // a lease is being given back
	voids    int                    // loads in a row that a hard purge made void; for the present flight alone

	mu     sync.Mutex // guards the fields below
	asking *asking[V]
	flight *flight[V]
	// order numbers looks as they begin; entered is the last that may not be replaced by an earlier
	// one.
	order, entered uint64
	lastETag       string // of the document last held, purged or not,
	lastAt         int64  // and when its content changed, Unix milliseconds

	// What was reported last of what is held, and held back.
	seeing sync.Mutex // guards both, and keeps reports in order
	sight  Sight
	told   lease.Hold

	file    lastgood.File // of the last good copy
	unsaved chan struct{} // capacity 1: wakes keepFile; nil if no copy is kept

	// What could not be done the last time: see warn.
	unkept, uncarried, unwritten, unremovable atomic.Bool
}

// warn logs an error, unless the same could not be done the last time either.
func (r *Reader[V]) warn(failing *atomic.Bool, message string, err error) {
	if was := failing.Swap(err != nil); err != nil && !was {
		r.store.log.Warn(message, "resource", r.key, "error", err) //nolint:sloglint // the callers' messages are constants
	}
}

// inRedis is a time on the clock of watch.Now by Redis's clock, Unix milliseconds. Once Redis has told
// the time, it is never ahead of that.
func (r *Reader[V]) inRedis(at time.Duration) int64 {
	return (time.Duration(r.clock.Load()) + at).Milliseconds()
}

// once runs f beside the caller, unless that is still running. A look follows.
func (r *Reader[V]) once(running *atomic.Bool, f func()) {
	if running.CompareAndSwap(false, true) {
		r.store.goTask(func() { // otherwise the store is closed
			defer watch.Signal(r.wake)
			defer running.Store(false)
			f()
		})
	}
}

// leaseLength is how long a lease lasts: for a load, the calls to Redis around it, and the transfer
// of a document as big as the last.
func (r *Reader[V]) leaseLength() time.Duration {
	return r.o.FetchTimeout + leaseMargin + 2*time.Duration(r.size.Load())*time.Second/watch.Slowest
}

// patience is how long a caller waits with nothing held. It is longer than a lease: if the lease's
// holder dies, callers wait for its successor's document instead of giving up just as that fetch
// begins.
func (r *Reader[V]) patience() time.Duration { return r.leaseLength() + leaseMargin }

// flight is one attempt to get a document, shared by every caller in this process that waits for
// it. It runs on the store's context and keeps only the values of the context it was started with,
// so that a caller who gives up does not end it for the others.
type flight[V any] struct {
	done chan struct{} // closed at the end, after the fields below are set

	entry *entry[V] // nil: look again
	// at is the time before which a caller must have asked to get entry, or within the trust after
	// it if no change was received since entry's mark: no purge acknowledged before it is later
	// than entry's fetch.
	at        time.Duration
	status    Status
	found     *entry[V] // what was fetched meanwhile, here or elsewhere, for who asked before its mark
	elsewhere bool      // another process had the lease
	void      bool      // a hard purge came while it was loaded
	err       error

	began, took time.Duration // of its load
	renewed     bool          // the document that Redis holds is current
	replaced    *Document     // what was held before it, or nil

	// Guarded by the reader's mutex: the lease that it has, or may have; since when, and what ends the
	// load under it (see guard).
	token string
	since time.Duration
	end   context.CancelCauseFunc
}

// asking is one look at Redis, shared by several goroutines.
type asking[V any] struct {
	done  chan struct{}
	at    time.Duration
	entry *entry[V]
	err   error
}

// A pause follows a failed attempt to load, by any process. The zero value is none.
type pause struct {
	count  int           // failures in a row
	length time.Duration // from the failure on; 0 in one that another process reported
	until  time.Duration
	err    error
	mark   watch.Mark // a change since makes the load due again
	// Of a document that this process has held back: what is recorded of it, and when nothing is held
	// back any more, by Redis's clock, Unix milliseconds.
	hold lease.Hold
	last int64
}

// isHeld reports whether a failure is a document held back.
func (p *pause) isHeld() bool { return errors.Is(p.err, ErrHeld) }
