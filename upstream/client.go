// Package upstream gets the content: one fetch of one resource, whole or not at all.
//
// One [Client.Fetch] goes like this:
//
//  1. the source is asked, over HTTP with the validators of the copy held, or in
//     a folder, or in the bundled sample;
//  2. over HTTP an attempt that failed may be made again, as the table in
//     retry.go says, until the time for the whole fetch is used up;
//  3. an answer must be JSON in UTF-8, complete and within its size, before and
//     after decompression; a redirect is followed only on the same host;
//  4. the copy held is still good (NotModified), or shape.Normalize makes the
//     documented bytes of what came, or refuses it;
//  5. what went wrong is one of [ErrUnreachable], [ErrTimeout], [ErrAnswer] and [ErrOpen].
//
// Proxies are taken from HTTP_PROXY, HTTPS_PROXY and NO_PROXY as net/http does;
// a proxy for plain http sees the Authorization header.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"vitrine/upstream/shape"
)

// Client fetches resources from one upstream. It is safe for concurrent use.
type Client struct {
	source      source
	fingerprint string
	timeout     time.Duration
	lists       *lists
	tracer      trace.Tracer
	breaker     *breaker
}

// source is where documents come from. Its errors are a *FetchError, or the
// context's where the caller cancelled it.
type source interface {
	fetch(ctx context.Context, r shape.Resource, held Validators) (answer, error)
	close()
	fmt.Stringer
}

// answer is what a source brought. On an error, only attempts counts.
type answer struct {
	op          string // how it was got, for errors about what is in it
	notModified bool
	body        []byte
	validators  Validators
	status      int
	attempts    int
	drafts      int // items that the CMS marks as not published
	pages       int // answers that body was made from
	header      http.Header
	received    int           // bytes of all answers that body was made from; 0 where it is the answer
	mapping     time.Duration // spent on making body from them
}

// Validators let the CMS say that a copy is still good. They are kept as the
// CMS sent them, and belong to the [Client.Source] they came from. The zero
// value asks for the document whatever it is.
type Validators struct{ ETag, LastModified string }

// Result is one fetch. After an error there is no Document, and no NotModified
// and Validators; the rest is as far as it came.
type Result struct {
	NotModified bool           // the copy that the given validators belong to is still good; there is no Document
	Document    shape.Document // as documented, with what had to be repaired
	Validators  Validators     // to be given to the next fetch
	Status      int            // of the last answer; 0 if there was none
	Attempts    int            // how often the source was asked
	Duration    time.Duration  // of the whole fetch, normalizing included
	Upstream    string         // the base URL, or the folder, that answered
	Pages       int            // answers that the document was made from, of all parts together
	Bytes       int            // of these, decompressed
	Steps       Steps          // what Duration was spent on
	Suspicions  []Suspicion    // what is served all the same, but should be looked at
}

// Steps are the parts of a fetch, in the order in which they are done.
type Steps struct{ Fetch, Map, Normalize time.Duration }

// New makes a client. It reaches for no CMS, but a folder has to be there. Its
// errors name the option, and no credential.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var s source
	var fingerprint string
	switch {
	case o.URL == "":
		return nil, errors.New("upstream URL: missing; want sample:, file:DIR, http://… or https://…")
	case o.URL == "sample:":
		s, fingerprint, err = newSample(o)
	case strings.HasPrefix(o.URL, "file:"):
		s, fingerprint, err = newFolder(o)
	default:
		s, fingerprint, err = newHTTP(o)
	}
	if err != nil {
		return nil, err
	}
	return &Client{source: s, fingerprint: fingerprint, timeout: o.Timeout, lists: newLists(), tracer: o.Tracer, breaker: newBreaker(s.String(), o.Logger)}, nil
}

// Fetch gets r, or learns that the copy which held belongs to is still good.
// Its error is one of the sentinels (see [Code]), mostly as a *[FetchError];
// only where ctx was cancelled it is ctx's. A deadline of ctx that comes before
// the client's own timeout is ErrTimeout as well: the CMS did not make it.
func (c *Client) Fetch(ctx context.Context, r shape.Resource, held Validators) (Result, error) {
	if !r.Valid() {
		return Result{}, fmt.Errorf("fetch: no resource %q", r)
	}
	ctx, span := c.startFetch(ctx, r)
	result, err := c.fetch(ctx, r, held)
	endFetch(span, result, err)
	return result, err
}

func (c *Client) fetch(ctx context.Context, r shape.Resource, held Validators) (Result, error) {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got, err := c.guarded(bounded, r, held)
	result := Result{
		Status:   got.status,
		Attempts: got.attempts,
		Upstream: c.String(),
		Pages:    got.pages,
		Bytes:    got.received,
		Steps:    Steps{Fetch: time.Since(start) - got.mapping, Map: got.mapping},
	}
	if result.Bytes == 0 {
		result.Bytes = len(got.body)
	}
	if err != nil {
		result.Duration = time.Since(start)
		return result, c.explain(ctx, r, err)
	}
	if !got.notModified {
		normalizing := time.Now()
		result.Document, err = normalize(ctx, r, got.body)
		result.Steps.Normalize = time.Since(normalizing)
		if err != nil {
			result.Duration = time.Since(start)
			return result, &FetchError{Resource: r, Op: got.op, Kind: ErrAnswer, Err: err}
		}
	}
	result.NotModified, result.Validators = got.notModified, got.validators
	result.Suspicions = c.lists.suspect(r, got, result.Document)
	result.Duration = time.Since(start)
	return result, nil
}

// guarded fetches, unless the breaker is open.
func (c *Client) guarded(ctx context.Context, r shape.Resource, held Validators) (answer, error) {
	done, err := c.breaker.allow(r, "GET "+c.String())
	if err != nil {
		return answer{}, err
	}
	outcome := context.Canceled // of a fetch that panics: it counts for nothing
	defer func() { done(outcome) }()
	got, err := c.source.fetch(ctx, r, held)
	if outcome = err; errors.Is(ctx.Err(), context.Canceled) {
		outcome = context.Canceled // whatever else came of it
	}
	return got, err
}

// explain tells the caller's own end of a fetch from the client's.
func (c *Client) explain(ctx context.Context, r shape.Resource, err error) error {
	late, ok := errors.AsType[*lateError](err)
	switch {
	case !ok:
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("fetch %s: %w", r, ctx.Err())
	case ctx.Err() == nil && late.limit == 0:
		late.limit = c.timeout
	}
	return err
}

// Source is a fingerprint of the upstream and of how its answers are mapped:
// short, hexadecimal, and no secret in it. Documents with the same Source are
// of the same making.
func (c *Client) Source() string { return c.fingerprint }

// String names the upstream for people, with neither credentials nor query.
func (c *Client) String() string { return c.source.String() }

// Close closes the connections that are idle. Fetches under way go on.
func (c *Client) Close() { c.source.close() }
