package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

const (
	leaseLength = 2 * time.Second        // a lease lasts,
	leaseRenews = 500 * time.Millisecond // and how often it is extended
	// unablePause is how often a process that cannot load asks whether another is loading.
	unablePause = 100 * time.Millisecond
	// wantLasts is for how long a process that cannot load wants another to.
	wantLasts = 3 * time.Second
	// uploadMost bounds the upload of a document, beside the time that its bytes take.
	uploadMost = 10 * time.Second
)

// A Reader reads one document through memory and Redis. Make it with [NewReader]; it lives as long as
// its store.
type Reader[V any] struct {
	store  *Store
	key    string
	o      ReaderOptions[V]
	hash   *lease.Hash
	member *poll.Member
	view   atomic.Pointer[view[V]]
	wanted atomic.Bool                     // a load
	lent   atomic.Pointer[context.Context] // the values of the call that wants it
	woken  chan struct{}
	unkept atomic.Bool // the history, the last time
}

// A Lender is a context whose values are valid during a call only, such as a request whose memory
// is reused. Lend returns a context with the values that a load may need later.
type Lender interface {
	context.Context
	Lend() context.Context
}

// lend returns the values of ctx, without its end.
func lend(ctx context.Context) context.Context {
	if l, ok := ctx.(Lender); ok {
		ctx = l.Lend()
	}
	return context.WithoutCancel(ctx)
}

// Untried is the error of a loader that did not try, such as a circuit breaker's.
type Untried interface {
	error
	TryAfter() time.Duration // when it will, or 0 if that is unknown
}

// prepare calls Prepare and turns a panic into an error, since those who wait would otherwise wait for
// ever.
func (r *Reader[V]) prepare(doc *Document) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("preparing %s: panic: %v", r.key, p)
		}
	}()
	if value, err = r.o.Prepare(doc); err != nil {
		err = fmt.Errorf("preparing %s: %w", r.key, err)
	}
	return value, err
}
