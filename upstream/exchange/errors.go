package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// What can be wrong with the upstream. Every error of a fetch is exactly one of these, except a
// context that its caller cancelled: that says nothing about the upstream, and is the context's
// error.
var (
	// ErrUnreachable: there is no answer to be had.
	ErrUnreachable = errors.New("upstream cannot be reached")
	// ErrTimeout: no whole answer came within the time for it.
	ErrTimeout = errors.New("upstream did not answer in time")
	// ErrAnswer: the upstream answered, but not with this document.
	ErrAnswer = errors.New("upstream answered, but not with this document")
	// ErrOpen: it was not asked, since it failed again and again.
	ErrOpen = errors.New("upstream is left alone after repeated failures")
)

// codes are the sentinels as replicas report them to each other.
var codeNames = []struct {
	code     string
	sentinel error
}{
	{"unreachable", ErrUnreachable},
	{"timeout", ErrTimeout},
	{"answer", ErrAnswer},
	{"open", ErrOpen},
}

// Code returns "unreachable", "timeout", "answer" or "open" for an error that is one of the
// sentinels, and "" for any other.
func Code(err error) string {
	for _, c := range codeNames {
		if errors.Is(err, c.sentinel) {
			return c.code
		}
	}
	return ""
}

// FromCode returns the sentinel that code stands for, so that a failure another replica met has the
// same answer here. A code that is unknown, of a newer replica perhaps, is taken as ErrUnreachable:
// try again later.
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
	Op   string // what was done last: "GET http://cms/gvapp/", "read /srv/catalogue.json"
	Kind error  // ErrUnreachable, ErrTimeout, ErrAnswer or ErrOpen
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// StatusError is an answer with a status that brings no document.
type StatusError struct {
	Code       int
	RetryAfter time.Duration // what the CMS asked for, at most a day; 0 if it did not
	HTML       bool          // it came with a page, so perhaps not from the CMS's own interface
	Name       string        // the CMS's own word for it ("TOKEN_EXPIRED"); empty where it has none
	Outage     bool          // a 401 by which the CMS means that its database is down
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

// OpenError is a fetch that was not made.
type OpenError struct {
	After time.Duration // when the CMS will be asked again
}

// Error does not say when, so that the same state has the same words.
func (*OpenError) Error() string { return "left alone after repeated failures" }

// RetryAfter returns how long the CMS asked to be left alone, or is left alone unasked, or 0.
func RetryAfter(err error) time.Duration {
	if open, ok := errors.AsType[*OpenError](err); ok {
		return open.After
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.RetryAfter
	}
	return 0
}

// ContentError is an answer whose bytes cannot be the JSON of a document, whatever they say:
// another type, charset or encoding, too much, or cut short.
type ContentError struct {
	Reason  string
	Damaged bool  // on its way, so that another attempt may bring it whole
	Page    bool  // it is a page, a form or an error where a document belongs: the CMS is not serving
	Err     error // may be nil
}

func (e *ContentError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

func (e *ContentError) Unwrap() error { return e.Err }

// RedirectError is a redirect that was not followed.
type RedirectError struct {
	Code   int
	Reason string
}

func (e *RedirectError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Reason) }

// FileError is a saved answer that cannot be read.
type FileError struct {
	Gone bool // with the whole folder
	Err  error
}

func (e *FileError) Error() string { return e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// LateError is a fetch that ran out of its time.
type LateError struct {
	Limit time.Duration // of the client; 0 if the caller's deadline came first
	last  error         // what the attempt before failed with; may be nil
}

func (e *LateError) Error() string {
	text := "no whole answer before the caller's deadline"
	if e.Limit > 0 {
		text = fmt.Sprintf("no whole answer within %v", e.Limit)
	}
	if e.last != nil {
		text += fmt.Sprintf(" (the attempt before: %v)", e.last)
	}
	return text
}

func (*LateError) Unwrap() error { return context.DeadlineExceeded }

// Late is the error of work on answers that did not end in time.
func Late(op string, last error) error {
	return &Error{Op: op, Kind: ErrTimeout, Err: &LateError{last: last}}
}

// bare takes off what net/http wraps around every error of a request: the method and URL, which
// [Error] says once for all attempts.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
