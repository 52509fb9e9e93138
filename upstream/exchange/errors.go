package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"vitrine/upstream/sanitize"
)

// The kinds of failure. Every error of a fetch is exactly one of these, except the error of a
// context that its caller cancelled, which says nothing about the upstream.
var (
	// ErrUnreachable: no response could be obtained.
	ErrUnreachable = errors.New("upstream cannot be reached")
	// ErrTimeout: no complete response arrived in time.
	ErrTimeout = errors.New("upstream did not answer in time")
	// ErrAnswer: the upstream answered, but not with this document.
	ErrAnswer = errors.New("upstream answered, but not with this document")
	// ErrOpen: no request was made, because the breaker is open.
	ErrOpen = errors.New("circuit breaker open after repeated failures")
)

// codes name the sentinels in Redis, where replicas share failures.
var codeNames = []struct {
	code     string
	sentinel error
}{
	{"unreachable", ErrUnreachable},
	{"timeout", ErrTimeout},
	{"answer", ErrAnswer},
	{"open", ErrOpen},
}

// Code returns "unreachable", "timeout", "answer" or "open" for an error that matches one of the
// sentinels, and "" for any other.
func Code(err error) string {
	for _, c := range codeNames {
		if errors.Is(err, c.sentinel) {
			return c.code
		}
	}
	return ""
}

// FromCode returns the sentinel of code, so that another replica's failure has the same response
// here. An unknown code, perhaps of a newer replica, is taken for ErrUnreachable: try again later.
func FromCode(code string) error {
	for _, c := range codeNames {
		if c.code == code {
			return c.sentinel
		}
	}
	return fmt.Errorf("%w (code %q)", ErrUnreachable, code)
}

// Error is the failure of one fetch: "GET http://cms/gvapp/singlebanner: status 503".
type Error struct {
	Op   string // the last operation: "GET http://cms/gvapp/", "read /srv/catalogue.json"
	Kind error  // ErrUnreachable, ErrTimeout, ErrAnswer or ErrOpen
	Err  error
}

// Error quotes the CMS at times, as does net/http, and is fit for a terminal all the same. Mask
// shortens it.
func (e *Error) Error() string { return sanitize.Clip(fmt.Sprintf("%s: %v", e.Op, e.Err), math.MaxInt) }

func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// StatusError is a response with a status that has no document.
type StatusError struct {
	Code       int
	RetryAfter time.Duration // of a 429 or 503, at most a day; 0 if it sent none
	HTML       bool          // it has an HTML page, so perhaps it is not from the CMS's API
	Said       string        // what the CMS says about it, for the operator alone: not in Error
	Name       string        // the CMS's error code ("TOKEN_EXPIRED"), or empty
	Outage     bool          // a 401 that means that the CMS's database is down
	Refused    bool          // a 401 or 403 to a request that had credentials
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d", e.Code)
	if e.Name != "" {
		text += " (" + e.Name + ")"
	}
	switch {
	case e.HTML:
		text += ", an HTML page"
	case e.Outage:
		text += ", which a Strapi answers when its database is down"
	case e.Refused:
		text += ", with the credentials that it was sent"
	}
	return text
}

// OpenError is a fetch that the breaker prevented.
type OpenError struct {
	After time.Duration // when the breaker lets a probe through, or 0 while there is one
	Asked bool          // by the CMS, with Retry-After
}

// Error omits the time, so that the same state has the same message.
func (e *OpenError) Error() string {
	if e.Asked {
		return "paused, as the CMS asked (Retry-After)"
	}
	return "circuit breaker open after repeated failures"
}

// TryAfter is After.
func (e *OpenError) TryAfter() time.Duration { return e.After }

// RetryAfter returns how long to wait before the next fetch, by the CMS's Retry-After or the
// breaker, or 0.
func RetryAfter(err error) time.Duration {
	if open, ok := errors.AsType[*OpenError](err); ok {
		return open.After
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.RetryAfter
	}
	return 0
}

// FaultError is any other failure, of one of the kinds that the table in retry.go tells apart.
type FaultError struct {
	Kind FaultKind
	Text string
	Err  error // may be nil
}

// FaultKind is a kind of FaultError.
type FaultKind int

// The kinds of faults.
const (
	FaultContent  FaultKind = iota // bytes that cannot be a document: of another type, charset or encoding, or too large
	FaultDamaged                   // a body damaged in transit, so that another attempt may succeed
	FaultPage                      // a page, a form or an error instead of a document: the CMS is not serving
	FaultRedirect                  // a redirect that was not followed
	FaultFile                      // a saved response that cannot be read
	FaultFolder                    // a folder that is gone
)

func (e *FaultError) Error() string {
	if e.Err != nil && e.Text != "" {
		return e.Text + ": " + e.Err.Error()
	} else if e.Err != nil {
		return e.Err.Error()
	}
	return e.Text
}

func (e *FaultError) Unwrap() error { return e.Err }

// LateError is a fetch that ran out of time.
type LateError struct {
	Limit time.Duration // of the client; 0 if the caller's deadline came first
	last  error         // the error of the previous attempt; may be nil
	at    error         // what it was at, if not waiting for a response; may be nil
}

func (e *LateError) Error() string {
	text := "no complete response before the caller's deadline"
	if e.Limit > 0 {
		text = fmt.Sprintf("no complete response within %v", e.Limit)
	}
	if e.at != nil {
		text += ": " + e.at.Error()
	} else if e.last != nil {
		text += fmt.Sprintf(" (previous attempt: %v)", e.last)
	}
	return text
}

func (*LateError) Unwrap() error { return context.DeadlineExceeded }

// Late is the error of processing responses for too long.
func Late(op string, at error) error {
	return &Error{Op: op, Kind: ErrTimeout, Err: &LateError{at: at}}
}

// plain removes the method and URL that net/http adds to every error of a request, since [Error] has
// them once for all attempts, and what it quotes of a response. A server of HTTP/2 alone is silent,
// or sends what is no HTTP/1.1.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch text := err.Error(); {
	case strings.Contains(text, "malformed"):
		return errors.New("the answer is no HTTP/1.1")
	case errors.Is(err, io.EOF), strings.Contains(text, "no application protocol"):
		return errors.New("closed without an answer (vitrine speaks HTTP/1.1)")
	}
	return err
}

// PanicError is a fault of this program, met while it worked on an answer.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Recover makes an error of a panic. It is to be deferred in every goroutine of a fetch.
func Recover(op string, err *error) {
	if p := recover(); p != nil { //nolint:revive // it is deferred itself
		*err = &Error{Op: op, Kind: ErrAnswer, Err: &PanicError{Value: p, Stack: debug.Stack()}}
	}
}
