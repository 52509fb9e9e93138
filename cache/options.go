package cache

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"vitrine/upstream/guard"
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
	// process then takes no lease, and records no failure, but asks the others to load. A
	// nil function is never unable.
	Unable func() error
	// Prepare makes the value of an answer from a document, once per document. The value is shared.
	// Required.
	Prepare func(*Document) (V, error)
	// ErrorCode and CodeError convert a loader's error to and from a short code for other
	// processes. Nil: one code for all errors.
	ErrorCode func(error) string
	CodeError func(string) error
	// Guard judges a document before it replaces the one held: the findings for which it is to be held
	// back. A nil function has none.
	Guard func(held, loaded V) guard.Findings
	// GuardHold is how long documents are held back for findings that are not lasting; the next one is
	// taken.
	GuardHold time.Duration
	// BackoffFirst and BackoffMost bound the pause after a failed fetch, which doubles with each
	// failure in a row; 0 is 500 ms and 10 s.
	BackoffFirst, BackoffMost time.Duration
	// Describe says, for the history, how many items a document has, and what changed from the one
	// before, which is nil if that is unknown; and whether that is the order of its items alone. Nil:
	// nothing is said.
	Describe func(before, now *Document) (items int, changes string, reordered bool)
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
