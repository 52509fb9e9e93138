package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"vitrine/upstream/exchange"
)

// When the breaker opens, and for how long.
const (
	breakerFailures = 5
	breakerOpenFor  = 10 * time.Second
)

// Breaker is the state of the circuit breaker.
type Breaker struct {
	State    string    `json:"state"` // "closed", "open", "half-open"
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"` // in a row, of those that count

	Opened time.Time `json:"opened,omitzero"` // last: by failures, or by a probe that failed
}

// Open reports whether the CMS gets no requests but probes.
func (b Breaker) Open() bool { return b.State != gobreaker.StateClosed.String() }

// breaker stops requests to a CMS that keeps failing. While it is half open, one fetch is let
// through as a probe. Its name is the CMS's.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[any]

	mu    sync.Mutex // guards the fields below; gobreaker reports under its own lock
	since time.Time  // of its state
	until time.Time  // the CMS's Retry-After

	opened time.Time
}

func newBreaker(name string, log *slog.Logger) *breaker {
	b := &breaker{since: time.Now()}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:         name,
		MaxRequests:  1,
		Timeout:      breakerOpenFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsSuccessful: func(err error) bool { return err == nil || !exchange.Judge(err).Trips },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			b.mu.Lock()
			b.since = time.Now()
			if to == gobreaker.StateOpen {
				b.opened = b.since
			}
			b.mu.Unlock()
			level := slog.LevelInfo
			if to == gobreaker.StateOpen && from == gobreaker.StateClosed {
				level = slog.LevelWarn
			}
			log.Log(context.Background(), level, "circuit breaker of the upstream", "upstream", name, "from", from.String(), "to", to.String())
		},
	})
	return b
}

// longestPause is the maximum of a Retry-After, which limits the effect of a mistake.
const longestPause = time.Hour

// refuses is why a fetch would not be let through now, or nil: the breaker is open, or its probe is
// under way, or a Retry-After has not expired.
func (b *breaker) refuses() error {
	state, requests := b.State(), b.Counts().Requests // before mu, which OnStateChange takes
	b.mu.Lock()
	defer b.mu.Unlock()
	switch asked := time.Until(b.until); {
	case asked > 0:
		return b.open(exchange.OpenError{After: asked, Asked: true})
	case state == gobreaker.StateOpen:
		return b.open(exchange.OpenError{After: max(breakerOpenFor-time.Since(b.since), 0)})
	case state == gobreaker.StateHalfOpen && requests > 0:
		return b.open(exchange.OpenError{})
	}
	return nil
}

func (b *breaker) open(why exchange.OpenError) error {
	return &exchange.Error{Op: "GET " + b.Name(), Kind: exchange.ErrOpen, Err: &why}
}

// allow returns an error if the breaker refuses; done receives the outcome of the fetch.
func (b *breaker) allow() (done func(error), err error) {
	if err = b.refuses(); err != nil {
		return nil, err
	}
	report, err := b.Allow()
	if err != nil { // another fetch was first
		return nil, b.open(exchange.OpenError{})
	}
	return func(err error) {
		if after := exchange.RetryAfter(err); after > 0 {
			b.mu.Lock()
			b.until = time.Now().Add(min(after, longestPause))
			b.mu.Unlock()
		}
		report(err)
	}, nil
}
