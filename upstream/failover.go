package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"vitrine/upstream/shape"
)

// What an option of Failover that is zero means.
const (
	defaultFailures    = 5
	defaultOpenFor     = 10 * time.Second
	defaultProbes      = 3
	defaultReturnAfter = 30 * time.Second
)

// Failover says when a base URL is left alone, and when one that failed is used again.
type Failover struct {
	// Failures is after how many failed fetches in a row the breaker of a base
	// URL opens. Zero means 5.
	Failures int
	// OpenFor is how long it is left alone then, until one fetch is let through
	// to probe it. Zero means 10s.
	OpenFor time.Duration
	// Probes is how many fetches in a row a preferred base URL must have done
	// well, on the side, before it is used again. Zero means 3.
	Probes int
	// ReturnAfter is how long at least after its last failure that may be. Zero means 30s.
	ReturnAfter time.Duration
	// Claim is asked before a base URL whose breaker is half open is probed, so
	// that one process does it at a time. It claims name for d, and reports
	// whether it got it; release keeps it for so much longer, and with 0 gives it
	// back. Nil means that this process is the only one, or does not mind the others.
	Claim func(ctx context.Context, name string, d time.Duration) (release func(keep time.Duration), ok bool)
}

func (f Failover) withDefaults() (Failover, error) {
	switch {
	case f.Failures < 0:
		return f, fmt.Errorf("upstream failures before the breaker opens: want 1 or more, got %d", f.Failures)
	case f.Probes < 0:
		return f, fmt.Errorf("upstream probes before a return: want 1 or more, got %d", f.Probes)
	case f.OpenFor < 0 || f.ReturnAfter < 0:
		return f, fmt.Errorf("upstream failover: want durations above 0, got %v and %v", f.OpenFor, f.ReturnAfter)
	}
	setDefault(&f.Failures, defaultFailures)
	setDefault(&f.OpenFor, defaultOpenFor)
	setDefault(&f.Probes, defaultProbes)
	setDefault(&f.ReturnAfter, defaultReturnAfter)
	return f, nil
}

// splitURLs takes a list of base URLs apart. One is a list too.
func splitURLs(raw string) ([]string, error) {
	urls := strings.Split(raw, ",")
	seen := make(map[string]bool)
	for i, one := range urls {
		one = strings.TrimSpace(one)
		base, err := parseBase(one)
		if err != nil {
			if len(urls) > 1 {
				return nil, fmt.Errorf("%w (number %d of %d)", err, i+1, len(urls))
			}
			return nil, err
		}
		name := strings.TrimSuffix(base.String(), "/")
		if seen[name] {
			return nil, fmt.Errorf("upstream URL: number %d of %d is there twice", i+1, len(urls))
		}
		seen[name] = true
		urls[i] = one
	}
	return urls, nil
}

// OpenError is a base URL that was not asked.
type OpenError struct {
	After time.Duration // when it will be asked again; 0 if that is not known
}

// Error does not say when, so that the same state has the same words.
func (*OpenError) Error() string { return "left alone after repeated failures" }

// failoverError is what several base URLs failed with, in the order in which they were asked.
type failoverError []*FetchError

func (e failoverError) Error() string {
	texts := make([]string, len(e))
	for i, f := range e {
		texts[i] = f.Err.Error()
		if i > 0 { // the FetchError around all of them names the first
			texts[i] = f.Op + ": " + texts[i]
		}
	}
	return strings.Join(texts, "; then ")
}

// Unwrap leaves out the kinds: the whole has one.
func (e failoverError) Unwrap() []error {
	errs := make([]error, len(e))
	for i, f := range e {
		errs[i] = f.Err
	}
	return errs
}

// allFailed makes one error of those of several base URLs. An answer tells more
// than a timeout, which tells more than a connection that was refused.
func allFailed(r shape.Resource, failed []*FetchError) error {
	if len(failed) == 1 {
		return failed[0]
	}
	for _, kind := range []error{ErrAnswer, ErrTimeout, ErrUnreachable, ErrOpen} {
		for _, f := range failed {
			if errors.Is(f.Kind, kind) {
				return &FetchError{Resource: r, Op: failed[0].Op, Kind: kind, Err: failoverError(failed)}
			}
		}
	}
	panic("upstream: a failure of no kind")
}
