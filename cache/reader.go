package cache

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// ReaderOptions are the settings of a [Reader].
type ReaderOptions[V any] struct {
	// TTL is the minimum time a document is fresh. Each gets up to a tenth more, so that resources
	// do not expire together, and one that is being read is fetched again before it expires, never
	// sooner than TTL. Required, at least 1 ms.
	TTL time.Duration
	// StaleWhileRevalidate is how long past its freshness a document is served at once while it is
	// refreshed; 0 means never.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long past its freshness a document is served if the loader fails; 0 means
	// never.
	StaleIfError time.Duration
	// StaleWait is how long a read waits for a fresh document beyond StaleWhileRevalidate if there
	// is a stale one; 0 is 2 s.
	StaleWait time.Duration
	// FetchTimeout bounds one load, and the wait of a read with nothing to fall back on; 0 is 10 s.
	FetchTimeout time.Duration
	// Always has documents refreshed when they have been fresh for TTL, and fetched at once after a
	// hard purge, although nobody reads.
	Always bool
	// Source is the fingerprint of where documents come from; a document with another one is stale.
	Source string
	// Loader fetches. Required.
	Loader Loader
	// Unable is why a load would not be tried now, such as an open circuit breaker, or nil. This
	// process then takes no lease, and tells nobody of a failure, but asks the others to load. A
	// nil function is never unable.
	Unable func() error
	// Prepare makes the value of an answer from a document, once per document. The value is shared.
	// Required.
	Prepare func(*Document) (V, error)
	// ErrorCode and CodeError convert a loader's error to and from a short code for other
	// processes. Nil: one code for all errors.
	ErrorCode func(error) string
	CodeError func(string) error
	// Guard judges a document before it replaces the one held, of which it would lose too much:
	// nil, or why not. A nil function has no objections.
	Guard func(held, loaded *Document) *Objection
	// GuardHold is how long documents are held back for an objection that time can answer; the next
	// one is taken. 0 holds nothing back for those.
	GuardHold time.Duration
	// BackoffFirst and BackoffMost bound the pause after a failed fetch, which doubles with each
	// failure in a row; 0 is 500 ms and 10 s.
	BackoffFirst, BackoffMost time.Duration
	// Describe says, for the history, how many items a document has, and what changed from the one
	// before, which is nil if that is unknown. Nil: nothing is said.
	Describe func(before, now *Document) (items int, changes string)
	// LastGood is a folder in which the last good copy is kept, for a start with neither Redis nor
	// a loader. Each process needs a folder of its own. Empty: none is kept.
	LastGood string
}

// ErrLoad is another process's failure if no CodeError is set.
var ErrLoad = errors.New("another process failed to load")

func (o *ReaderOptions[V]) validate() error {
	switch {
	case o.TTL < time.Millisecond:
		return fmt.Errorf("cache: TTL: want at least 1ms, got %v", o.TTL)
	case min(o.StaleWhileRevalidate, o.StaleIfError, o.StaleWait, o.FetchTimeout, o.GuardHold, o.BackoffFirst, o.BackoffMost) < 0:
		return errors.New("cache: want no negative duration")
	case o.Loader == nil:
		return errors.New("cache: Loader is required")
	case o.Prepare == nil:
		return errors.New("cache: Prepare is required")
	}
	o.FetchTimeout = cmp.Or(o.FetchTimeout, 10*time.Second)
	o.StaleWait = cmp.Or(o.StaleWait, 2*time.Second)
	o.BackoffFirst = cmp.Or(o.BackoffFirst, 500*time.Millisecond)
	o.BackoffMost = cmp.Or(o.BackoffMost, 10*time.Second)
	if o.Unable == nil {
		o.Unable = func() error { return nil }
	}
	if o.ErrorCode == nil {
		o.ErrorCode = func(error) string { return "error" }
	}
	if o.CodeError == nil {
		o.CodeError = func(code string) error { return fmt.Errorf("%w: %s", ErrLoad, code) }
	}
	return nil
}

// freshness is TTL and up to a tenth more.
func (o *ReaderOptions[V]) freshness() time.Duration { return o.TTL + rand.N(o.TTL/10+1) }

// leaseMargin is how much longer a lease lasts than its load can take, for the calls to Redis
// around it.
const leaseMargin = time.Second

// leaseLength is how long a lease lasts: for a load, the calls to Redis around it, and the transfer
// of a document as big as the last.
func (r *Reader[V]) leaseLength() time.Duration {
	return r.o.FetchTimeout + leaseMargin + 2*time.Duration(r.size.Load())*time.Second/watch.Slowest
}

// A Reader reads one resource through memory and Redis. Make it with [NewReader]; it lives as long
// as its store.
type Reader[V any] struct {
	store   *Store
	key     string
	o       ReaderOptions[V]
	hash    *lease.Hash
	watched *watch.Key

	memory    atomic.Pointer[entry[V]]
	pause     atomic.Pointer[pause]      // after a failed load; nil after a successful one
	held      atomic.Pointer[lease.Hold] // what is held back; nil for nothing
	skew      atomic.Int64               // Redis's clock less this process's, ms
	beside    atomic.Bool                // the books changed, and nobody has looked since
	size      atomic.Int64               // of the last body that was loaded, bytes
	nextAsk   atomic.Int64               // when a read may ask for a refresh again
	refusal   atomic.Pointer[refusal]    // why Redis refused the last write of this resource; nil: it did not
	wake      chan struct{}              // capacity 1: wakes the attendant
	changed   chan struct{}              // capacity 1: wakes the flight that waits for another process's
	unkept    atomic.Bool                // the history could not be written the last time, which is logged once
	carrying  atomic.Bool                // what an operator wants restored is being restored
	uncarried atomic.Bool                // that failed the last time, which is logged once
	voids     int                        // loads in a row that a hard purge made void; for the present flight alone

	telling sync.Mutex // guards told: what was told last of what is held back
	told    lease.Hold

	mu     sync.Mutex // guards the fields below
	asking *asking[V]
	flight *flight[V]
	// order numbers looks as they begin; entered is the last that may not be replaced by an earlier
	// one.
	order, entered uint64
	lastETag       string // of the document last held, purged or not,
	lastAt         int64  // and when its content changed, Unix milliseconds

	sights sightings

	file    lastgood.File // of the last good copy
	unsaved chan struct{} // capacity 1: wakes keepFile; nil if no copy is kept
	// unremovable is whether removing the file failed the last time, which is logged once.
	unremovable atomic.Bool
}

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
	r.hash = s.hash(key)
	if o.LastGood != "" { // before anything is notified
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
		if r.store.events.Invalidated != nil {
			r.store.events.Invalidated(r.key)
		}
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

// refuse records that Redis answered a write with an error. A Redis that refuses is still
// reachable: it is read, and purges are received.
func (r *Reader[V]) refuse(operation string, err error) {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = reply
	}
	reason, _, _ := strings.Cut(err.Error(), " script: ") // without the place in our script
	if r.refusal.Swap(&refusal{operation, reason}) == nil {
		r.store.log.Warn("redis refuses writes: "+reason, "redis", r.store.Addr(), "resource", r.key, "operation", operation) //nolint:sloglint // the reason is what is searched for
	}
	r.store.refusing(r.key, reason)
}

// accepted records a successful write: a lease may fit where a document does not.
func (r *Reader[V]) accepted(operation string) {
	if old := r.refusal.Load(); old != nil && (operation == "fill" || old.operation == operation) && r.refusal.CompareAndSwap(old, nil) {
		r.store.refusing(r.key, "")
		r.store.log.Info("redis accepts writes again", "redis", r.store.Addr(), "resource", r.key)
	}
}

// A refusal is an error reply to a write.
type refusal struct {
	operation, reason string
}

// patience is how long a caller waits with nothing held. It is longer than a lease: if the lease's
// holder dies, callers wait for its successor's document instead of giving up just as that fetch
// begins.
func (r *Reader[V]) patience() time.Duration { return r.leaseLength() + leaseMargin }
