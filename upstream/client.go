// Package upstream gets the content: one fetch of one resource, whole or not at all.
//
// One [Client.Fetch] goes like this:
//
//  1. the circuit breaker lets it through (breaker.go);
//  2. package list reads the parts of the resource, page by page, by way of package exchange, and maps
//     them, all within the time of the fetch;
//  3. the copy held is still good (NotModified), or shape.Normalize makes the documented bytes of what
//     came, or refuses it;
//  4. what is served all the same but looks wrong is a [Suspicion];
//  5. what went wrong is one of [ErrUnreachable], [ErrTimeout], [ErrAnswer] and [ErrOpen].
package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"vitrine/upstream/exchange"
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

// Code names the sentinel that an error is, or "".
func Code(err error) string { return exchange.Code(err) }

// FromCode returns the sentinel that a code stands for.
func FromCode(code string) error { return exchange.FromCode(code) }

// RetryAfter returns how long the CMS is to be left alone after an error, or 0.
func RetryAfter(err error) time.Duration { return exchange.RetryAfter(err) }

// StatusError is an answer with a status that brings no document.
type StatusError = exchange.StatusError

// Validators let the CMS say that a copy is still good.
type Validators = exchange.Validators

// Client fetches resources from one upstream. It is safe for concurrent use.
type Client struct {
	cms         *exchange.Client
	recipes     map[shape.Resource]*list.Recipe
	fingerprint string
	timeout     time.Duration
	lists       *lists
	tracer      trace.Tracer
	breaker     *breaker
}

// Result is one fetch. After an error there is no Document, and no NotModified and Validators; the
// rest is as far as it came.
type Result struct {
	NotModified bool           // the copy that the given validators belong to is still good; there is no Document
	Document    shape.Document // as documented, with what had to be repaired
	Validators  Validators     // to be given to the next fetch
	Status      int            // of the last answer; 0 if there was none
	Attempts    int            // how often the CMS was asked
	Duration    time.Duration  // of the whole fetch, normalizing included
	Upstream    string         // the base URL, or the folder
	Pages       int            // answers that the document was made from, of all parts together
	Bytes       int            // of these, decompressed
	Steps       Steps          // what Duration was spent on
	Suspicions  []Suspicion    // what is served all the same, but should be looked at
}

// Steps are the parts of a fetch, in the order in which they are done.
type Steps struct{ Fetch, Map, Normalize time.Duration }

// Fetch gets r, or learns that the copy which held belongs to is still good. Its error is one of
// the sentinels (see [Code]); only where ctx was cancelled it is ctx's. A deadline of ctx that
// comes before the client's own timeout is ErrTimeout as well: the CMS did not make it.
func (c *Client) Fetch(ctx context.Context, r shape.Resource, held Validators) (Result, error) {
	if !r.Valid() {
		return Result{}, fmt.Errorf("fetch: no resource %q", r)
	}
	ctx, span := c.tracer.Start(ctx, "fetch "+string(r), trace.WithAttributes(attribute.String("vitrine.resource", string(r))))
	defer span.End()
	start := time.Now()
	result := Result{Upstream: c.String()}
	err := c.fetch(ctx, r, held, &result)
	result.Duration = time.Since(start)
	if err != nil {
		err = fmt.Errorf("fetch %s: %w", r, c.explain(ctx, err))
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int("vitrine.attempts", result.Attempts), attribute.Int("vitrine.pages", result.Pages),
			attribute.Int("vitrine.bytes", result.Bytes), attribute.Bool("vitrine.not_modified", result.NotModified),
		)
		exchange.SetStatus(span, result.Status, err)
	}
	return result, err
}

// fetch does the steps of a fetch.
func (c *Client) fetch(ctx context.Context, r shape.Resource, held Validators, result *Result) error {
	start := time.Now()
	got, err := c.read(ctx, r, held)
	result.Status, result.Attempts, result.Pages, result.Bytes = got.Status, got.Attempts, got.Pages, got.Bytes
	result.Steps.Fetch, result.Steps.Map = time.Since(start)-got.Mapping, got.Mapping
	if err != nil {
		return err
	}
	if !got.NotModified {
		normalizing := time.Now()
		result.Document, err = normalize(ctx, r, got.Body)
		result.Steps.Normalize = time.Since(normalizing)
		if err != nil {
			return &exchange.Error{Op: got.Op, Kind: ErrAnswer, Err: err}
		}
	}
	result.NotModified, result.Validators = got.NotModified, got.Validators
	result.Suspicions = c.lists.suspect(r, got, result.Document)
	return nil
}

// read reads the input of the document, unless the breaker is open.
func (c *Client) read(ctx context.Context, r shape.Resource, held Validators) (list.Result, error) {
	done, err := c.breaker.allow(c.String())
	if err != nil {
		return list.Result{}, err
	}
	outcome := context.Canceled // of a fetch that panics: it counts for nothing
	defer func() { done(outcome) }()
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got, err := c.recipes[r].Read(bounded, c.cms, held)
	if outcome = err; errors.Is(ctx.Err(), context.Canceled) {
		outcome = context.Canceled // whatever else came of it
	}
	return got, err
}

// explain tells the caller's own end of a fetch from the client's.
func (c *Client) explain(ctx context.Context, err error) error {
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

// normalize is shape.Normalize within a span.
func normalize(ctx context.Context, r shape.Resource, body []byte) (shape.Document, error) {
	_, span := exchange.StartSpan(ctx, "normalize", string(r))
	defer span.End()
	document, err := shape.Normalize(r, body)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("vitrine.items", document.Items), attribute.Int("vitrine.repairs", document.Repairs.Total()))
		if err != nil {
			exchange.SetStatus(span, 0, ErrAnswer)
		}
	}
	return document, err
}

// Fingerprint identifies the upstream and how its answers are mapped: short, hexadecimal, and no
// secret in it. Documents with the same fingerprint are of the same making.
func (c *Client) Fingerprint() string { return c.fingerprint }

// String names the upstream for people, with neither credentials nor query.
func (c *Client) String() string { return c.cms.String() }

// Close closes the connections that are idle. Fetches under way go on.
func (c *Client) Close() { c.cms.Close() }
