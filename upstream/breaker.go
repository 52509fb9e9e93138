package upstream

import (
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker is the state of one base URL.
type Breaker struct {
	Upstream string    `json:"upstream"`
	State    string    `json:"state"` // "closed", "open", "half-open"
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"` // in a row, of those that count
	InUse    bool      `json:"in_use"`   // documents come from it, as long as it brings them
}

// Open reports whether the base URL is left alone, but for a probe.
func (b Breaker) Open() bool { return b.State != gobreaker.StateClosed.String() }

// Breakers returns the state of each base URL, in order of preference. A source
// that is not HTTP has none.
func (c *Client) Breakers() []Breaker {
	s, ok := c.source.(*standbys)
	if !ok {
		return nil
	}
	told := make([]Breaker, len(s.bases))
	for i, b := range s.bases {
		state := b.breaker.State().String() // may change since
		b.opening.Lock()
		told[i] = Breaker{Upstream: b.name, State: state, Since: b.since}
		b.opening.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.bases {
		told[i].Failures, told[i].InUse = b.failures, i == s.inUse
	}
	return told
}

// BreakerOpen reports whether the CMS is left alone: each base URL is, but for probes.
func (c *Client) BreakerOpen() bool {
	told := c.Breakers()
	return len(told) > 0 && !slices.ContainsFunc(told, func(b Breaker) bool { return !b.Open() })
}
