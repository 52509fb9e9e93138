// Package upstream fetches the content: one resource at a time, whole or not at all.
//
// One [Client.Fetch] goes like this:
//
//  1. the circuit breaker lets it through (breaker.go);
//  2. package list reads the parts of the resource page by page, through package exchange, and maps
//     them, all within the timeout of the fetch;
//  3. the CMS confirms the cached copy (NotModified), or shape.Normalize turns the result into the
//     documented bytes, or refuses it;
//  4. a document that is served but looks wrong has content warnings (warnings.go);
//  5. an error is one of [ErrUnreachable], [ErrTimeout], [ErrAnswer] and [ErrOpen].
package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"vitrine/upstream/exchange"
	"vitrine/upstream/guard"
	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// The errors of a fetch; see package exchange.
var (
	ErrUnreachable = exchange.ErrUnreachable
	ErrTimeout     = exchange.ErrTimeout
	ErrAnswer      = exchange.ErrAnswer
	ErrOpen        = exchange.ErrOpen
)

type (
	// StatusError is that of package exchange, as all that follows.
	StatusError = exchange.StatusError
	// Trace is a request's place in a trace.
	Trace = exchange.Trace
	// Validators are those of a response.
	Validators = exchange.Validators
)

// Code and what follows are functions of package exchange.
var (
	Code       = exchange.Code
	FromCode   = exchange.FromCode
	ParseTrace = exchange.ParseTrace
	NewTrace   = exchange.NewTrace
	WithTrace  = exchange.WithTrace
)

// Held is the copy that a fetch may confirm, and that a new document is compared with. The zero
// value is none.
type Held struct {
	Validators
	Purged   bool // the fetch follows a purge: it is unconditional, and caches on the way pass it on
	Survey   guard.Survey
	Other    guard.Policy // the survey is of another source, or mapping: what this would hold back is a warning
	Warnings guard.Findings
}

// Client fetches resources from one upstream. It keeps nothing between two fetches, and is safe for
// concurrent use.
type Client struct {
	cms         *exchange.Client
	recipes     map[shape.Resource]*list.Recipe
	fingerprint string
	timeout     time.Duration
	breaker     *breaker
	log         *slog.Logger
}

// Result is one fetch. After an error Document, NotModified and Validators are zero, and the rest
// is as far as the fetch got.
type Result struct {
	NotModified bool           // the CMS confirmed the cached copy; there is no Document
	Document    shape.Document // as documented, with its repairs
	Validators  Validators     // for the next fetch
	Status      int            // of the last response; 0 if there was none
	Attempts    int            // number of requests
	Duration    time.Duration  // of the whole fetch, including normalizing
	Upstream    string         // the base URL, or the folder
	TraceID     string         // of its requests, as the CMS received it
	Pages       int            // responses that the document was made from, over all parts
	Bytes       int            // of these, decompressed
	Age         time.Duration  // of the oldest response, spent in caches on the way
	Steps       Steps          // the breakdown of Duration
	Unsteady    bool           // a list changed while it was read: fetch again after the backoff
	Warnings    guard.Findings // what is odd about the document
}

// Steps are the parts of a fetch, in order.
type Steps struct{ Fetch, Map, Normalize time.Duration }

// Fetch fetches r, or learns that the cached copy is current. Its error is one of the sentinels (see
// [Code]), or ctx's if ctx was cancelled. A deadline of ctx before the client's own timeout is
// ErrTimeout too. It leaves garbage of several times a document's size; see [Collect].
func (c *Client) Fetch(ctx context.Context, r shape.Resource, held Held) (Result, error) {
	if !r.Valid() {
		return Result{}, fmt.Errorf("fetch: no resource %q", r)
	}
	start := time.Now()
	trace := cmp.Or(exchange.TraceOf(ctx), exchange.NewTrace())
	ctx = exchange.WithTrace(ctx, trace)
	result := Result{Upstream: c.String(), TraceID: trace.ID()}
	err := c.fetch(ctx, r, held, &result)
	result.Duration = time.Since(start)
	if err != nil {
		err = c.hide(fmt.Errorf("fetch %s: %w", r, c.whoseDeadline(ctx, err)))
	}
	for i := range result.Warnings {
		result.Warnings[i].Shown = c.cms.Mask(result.Warnings[i].Shown)
	}
	if p, ok := errors.AsType[*exchange.PanicError](err); ok {
		c.log.LogAttrs(ctx, slog.LevelError, "panic during a fetch", slog.Any("error", err), slog.String("stack", string(p.Stack)))
	}
	return result, err
}

// fetch does the steps of a fetch.
func (c *Client) fetch(ctx context.Context, r shape.Resource, held Held, result *Result) (err error) {
	defer exchange.Recover("make the document", &err)
	start := time.Now()
	got, err := c.read(ctx, r, held)
	result.Status, result.Attempts, result.Pages, result.Bytes = got.Status, got.Attempts, got.Pages, got.Bytes
	result.Steps.Fetch, result.Steps.Map = time.Since(start)-got.Mapping, got.Mapping
	if err != nil {
		return err
	}
	if !got.NotModified {
		Collect(got.Body) // what was received, and mapping's garbage, are several times the body
		normalizing := time.Now()
		result.Document, err = c.recipes[r].Normalize(got.Body)
		if err == nil {
			err = c.recipes[r].Enough(result.Document)
		}
		if got.Garbled.Count > 0 {
			result.Document.Repairs = append(result.Document.Repairs, got.Garbled)
		}
		result.Steps.Normalize = time.Since(normalizing)
		if err != nil {
			result.Document = shape.Document{}
			return &exchange.Error{Op: got.At(err), Kind: ErrAnswer, Err: err}
		}
	}
	result.NotModified, result.Validators, result.Age = got.NotModified, got.Validators, got.Age
	result.Unsteady = got.Unsteady
	receive(got, &result.Document)
	result.Warnings = warnings(r, held, got, result.Document)
	return nil
}

// Collect collects garbage if a body is so large that memory matters more than the milliseconds
// that this takes.
func Collect(body []byte) {
	const large = 4 << 20
	if len(body) > large {
		runtime.GC()
	}
}

// Unable is why a fetch would fail at once, without a request, or nil: the breaker is open.
func (c *Client) Unable() error { return c.breaker.refuses() }

// read reads the input of the document, unless the breaker is open.
func (c *Client) read(ctx context.Context, r shape.Resource, held Held) (list.Result, error) {
	done, err := c.breaker.allow()
	if err != nil {
		return list.Result{}, err
	}
	outcome := context.Canceled // of a fetch that panics: it does not count
	defer func() { done(outcome) }()
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	want := list.Request{Held: held.Validators, NoCache: held.Purged, Cached: len(held.Survey) > 0}
	if held.Purged {
		want.Held = Validators{}
	}
	got, err := c.recipes[r].Read(bounded, c.cms, want)
	if outcome = err; errors.Is(ctx.Err(), context.Canceled) {
		outcome = context.Canceled // whatever else happened
	}
	return got, err
}

// whoseDeadline distinguishes the end of the caller's context from the client's timeout.
func (c *Client) whoseDeadline(ctx context.Context, err error) error {
	late, ok := errors.AsType[*exchange.LateError](err)
	switch {
	case !ok:
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() == nil && late.Limit == 0:
		late.Limit = c.timeout
	}
	return err
}

// Breaker returns the state of the circuit breaker.
func (c *Client) Breaker() Breaker {
	state, failures := c.breaker.State().String(), int(c.breaker.Counts().ConsecutiveFailures)
	c.breaker.mu.Lock()
	defer c.breaker.mu.Unlock()
	return Breaker{State: state, Since: c.breaker.since, Failures: failures, Opened: c.breaker.opened}
}

// Fingerprint identifies the upstream and the mapping: short, hexadecimal, and without secrets.
// Documents with the same fingerprint were made in the same way.
func (c *Client) Fingerprint() string { return c.fingerprint }

// String names the upstream, without credentials or query.
func (c *Client) String() string { return c.cms.String() }

// Close closes idle connections. Fetches in flight continue.
func (c *Client) Close() { c.cms.Close() }

// hiddenError is an error whose text repeats a secret.
type hiddenError struct {
	error
	text string
}

func (e hiddenError) Error() string { return e.text }

func (e hiddenError) Unwrap() error { return e.error }

// hide removes from an error what the CMS repeats of the secrets that it was sent, as in a link.
func (c *Client) hide(err error) error {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		refused.Path, refused.Got = c.cms.Mask(refused.Path), c.cms.Mask(refused.Got)
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		status.Said, status.Name = c.cms.Mask(status.Said), c.cms.Mask(status.Name)
	}
	if text := c.cms.Mask(err.Error()); text != err.Error() {
		return hiddenError{err, text}
	}
	return err
}
