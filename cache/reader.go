package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ReaderOptions say what a reader reads and how long it may be kept.
type ReaderOptions[V any] struct {
	// TTL is how long a document is fresh, at least: up to a tenth more, so that resources do not expire together, and
	// so that one which is being read is fetched anew before it expires, never sooner than TTL. Required, at least 1 ms.
	TTL time.Duration
	// StaleWhileRevalidate is how long past its freshness a document is still given at once, while it is refreshed;
	// 0 means never.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long past its freshness a document is still given when the loader fails; 0 means never.
	StaleIfError time.Duration
	// StaleWait is how long a reader that could be given a stale document waits for a fresh one beyond
	// StaleWhileRevalidate; 0 is 2 s.
	StaleWait time.Duration
	// FetchTimeout bounds one load, and how long a reader with nothing to fall back on waits; 0 is 10 s.
	FetchTimeout time.Duration
	// Source fingerprints where documents come from: one with another fingerprint is stale.
	Source string
	// Loader fetches. Required.
	Loader Loader
	// Prepare makes the value that readers are given from a document, once per document. What it returns is shared. Required.
	Prepare func(*Document) (V, error)
	// ErrorCode and CodeError carry a loader's error to other processes and back, as a short word. Nil: a word for any error.
	ErrorCode func(error) string
	CodeError func(string) error
	// BackoffFirst and BackoffMost bound the pause after a failed fetch, which doubles with each failure in a row;
	// 0 is 500 ms and 10 s.
	BackoffFirst, BackoffMost time.Duration
}

// ErrLoad is what another process's failure becomes when no CodeError is set.
var ErrLoad = errors.New("another process failed to load")

func (o *ReaderOptions[V]) validate() error {
	switch {
	case o.StaleWait < 0 || o.BackoffFirst < 0 || o.BackoffMost < 0:
		return errors.New("cache: want no negative duration")
	case o.Loader == nil:
		return errors.New("cache: Loader is required")
	case o.Prepare == nil:
		return errors.New("cache: Prepare is required")
	}
	p := o.policy()
	if err := p.validate(); err != nil {
		return err
	}
	o.FetchTimeout = p.FetchTimeout
	setDefault(&o.StaleWait, 2*time.Second)
	setDefault(&o.BackoffFirst, 500*time.Millisecond)
	setDefault(&o.BackoffMost, 10*time.Second)
	if o.ErrorCode == nil {
		o.ErrorCode = func(error) string { return "error" }
	}
	if o.CodeError == nil {
		o.CodeError = func(code string) error { return fmt.Errorf("%w: %s", ErrLoad, code) }
	}
	return nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// leaseMargin is how much longer than a load may take its lease lasts: for the calls to Redis around it.
const leaseMargin = time.Second

// A Reader reads one resource through memory and Redis. Make it with [NewReader]; it lives as long as its store.
type Reader[V any] struct {
	store *Store
	key   string
	o     ReaderOptions[V] // but for what policy has
	// policy is read once for each attempt to fetch.
	policy atomic.Pointer[Policy]

	// memory is the copy that this process holds. It is given out without asking while the store hears of purges,
	// entry.epoch is the store's and entry.gen is gen.
	memory atomic.Pointer[entry[V]]
	// gen counts the invalidations heard. An entry carries the count from before it was read from Redis, so that an
	// invalidation in between, or at any time after, makes the two differ: there is nothing to remove and no moment
	// at which an old copy could be put back.
	gen     atomic.Uint64
	failing atomic.Bool   // the last attempt to fetch that this process heard of failed
	nextAsk atomic.Int64  // on the store's clock, when a reader may ask for a refresh again
	poke    chan struct{} // capacity 1: wakes the attendant

	mu       sync.Mutex    // guards what follows
	heard    chan struct{} // closed at the next invalidation
	asking   *asking[V]
	flight   *flight[V]
	loading  guarded
	orphaned string // the token of a lease that this process may hold without knowing
	lastETag string // of the document last held, purged or not,
	lastAt   int64  // and when its content changed, Unix milliseconds
	damaged  string // the etag of a body in Redis that cannot be used
	alone    struct {
		count int           // failures in a row while Redis was away
		until time.Duration // on the store's clock, when to try again
		err   error
	}
}

// askPause is how soon after one reader has asked for a refresh the next one may.
const askPause = 20 * time.Millisecond

// NewReader makes the reader of key, of which a store has one. Its fetches and its attendant end with the store.
func NewReader[V any](s *Store, key string, o ReaderOptions[V]) (*Reader[V], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Reader[V]{store: s, key: key, o: o, poke: make(chan struct{}, 1), heard: make(chan struct{})}
	p := o.policy()
	r.policy.Store(&p)
	if err := s.register(key, r); err != nil {
		return nil, err
	}
	if !s.goTask(r.attend) || !s.goTask(r.sample) {
		return nil, errClosed
	}
	return r, nil
}

// invalidate notes that the key was written or removed. It is called in the order in which Redis did it.
func (r *Reader[V]) invalidate() {
	r.gen.Add(1)
	r.wake()
}

// wake makes everybody who waits for Redis to change look at it again, the attendant too.
func (r *Reader[V]) wake() {
	r.mu.Lock()
	close(r.heard)
	r.heard = make(chan struct{})
	r.mu.Unlock()
	r.rouse()
}

// rouse makes the attendant look at Redis.
func (r *Reader[V]) rouse() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// attend looks at Redis after each invalidation, so that the next reader finds memory coherent again, and a document
// that an operator has declared stale is fetched without waiting for one.
func (r *Reader[V]) attend() {
	for {
		select {
		case <-r.store.ctx.Done():
			return
		case <-r.poke:
		}
		if !r.store.Up() {
			continue // whoever finds it back wakes everybody
		}
		// A look that somebody began before the invalidation may not have seen what it was about.
		e, err := r.ask(r.store.now())
		if err != nil {
			r.store.failed(err)
		} else if e != nil && e.soft {
			r.fly(r.store.ctx)
		}
	}
}

// refresh starts a flight that nobody waits for, unless Redis is known to hold somebody's lease, or the word of a
// failure, which a flight would only read again. Readers call it on every answer that is due: it is cheap.
func (r *Reader[V]) refresh(ctx context.Context) {
	now := r.store.now()
	next := r.nextAsk.Load()
	if int64(now) < next || !r.nextAsk.CompareAndSwap(next, int64(now+askPause)) {
		return
	}
	if e := r.memory.Load(); e != nil && now < e.leased && r.coherent(e, now) {
		return
	}
	r.fly(ctx)
}

// signal is closed at the next invalidation.
func (r *Reader[V]) signal() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard
}

// jitter spreads d by a quarter to either side.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
