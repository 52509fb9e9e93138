package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vitrine/upstream/shape"
)

// What can be wrong with the upstream. Every error of [Client.Fetch] is exactly
// one of these, except a context that its caller cancelled: that says nothing
// of the upstream, and is the context's error.
var (
	// ErrUnreachable: there was no answer to be had.
	ErrUnreachable = errors.New("upstream cannot be reached")
	// ErrTimeout: no whole answer came within the time for it.
	ErrTimeout = errors.New("upstream did not answer in time")
	// ErrAnswer: the upstream answered, but not with this document.
	ErrAnswer = errors.New("upstream answered, but not with this document")
	// ErrOpen: it was not asked, since it failed again and again.
	ErrOpen = errors.New("upstream is left alone after repeated failures")
)

// The codes of the sentinels, as replicas tell them to each other.
var codes = []struct {
	code     string
	sentinel error
}{
	{"unreachable", ErrUnreachable},
	{"timeout", ErrTimeout},
	{"answer", ErrAnswer},
	{"open", ErrOpen},
}

// Code returns "unreachable", "timeout", "answer" or "open" for an error that is one of
// the sentinels, and "" for any other.
func Code(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.sentinel) {
			return c.code
		}
	}
	return ""
}

// FromCode returns the sentinel that code stands for, so that a failure another
// replica met has the same answer here. A code that is unknown, of a newer
// replica perhaps, is taken as ErrUnreachable: try again later.
func FromCode(code string) error {
	for _, c := range codes {
		if c.code == code {
			return c.sentinel
		}
	}
	return fmt.Errorf("%w (code %q)", ErrUnreachable, code)
}

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

// RetryAfter returns how long the CMS asked to be left alone, or is left alone
// unasked, or 0.
func RetryAfter(err error) time.Duration {
	if open, ok := errors.AsType[*OpenError](err); ok {
		return open.After
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.RetryAfter
	}
	return 0
}

// ContentError is an answer whose bytes cannot be the JSON of a document,
// whatever they say: another type, charset or encoding, too much, or cut short.
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

// FetchError is the failure of one fetch:
// "fetch banners: GET http://cms/gvapp/singlebanner: status 503".
type FetchError struct {
	Resource shape.Resource
	Op       string // what was done last: "GET http://cms/gvapp/", "read /srv/catalogue.json"
	Kind     error  // ErrUnreachable, ErrTimeout, ErrAnswer or ErrOpen
	Err      error
}

func (e *FetchError) Error() string {
	return fmt.Sprintf("fetch %s: %s: %v", e.Resource, e.Op, e.Err)
}

func (e *FetchError) Unwrap() []error { return []error{e.Kind, e.Err} }

// lateError is a fetch that ran out of its time.
type lateError struct {
	limit time.Duration // of the client; 0 if the caller's deadline came first
	last  error         // what the attempt before failed with; may be nil
}

func (e *lateError) Error() string {
	text := "no whole answer before the caller's deadline"
	if e.limit > 0 {
		text = fmt.Sprintf("no whole answer within %v", e.limit)
	}
	if e.last != nil {
		text += fmt.Sprintf(" (the attempt before: %v)", e.last)
	}
	return text
}

func (*lateError) Unwrap() error { return context.DeadlineExceeded }
