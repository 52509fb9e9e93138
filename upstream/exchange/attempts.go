package exchange

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"vitrine/upstream/retryafter"
)

// longestAfter bounds a Retry-After.
const longestAfter = 24 * time.Hour

// attempts is the policy of retry.go at work in one request. It is used by one goroutine.
type attempts struct {
	client *Client
	want   Request
	held   Validators // that the request carries
	got    Answer
	wait   time.Duration
	last   error // of the attempt before
}

// Do makes the request, and repeats it where the table in retry.go says so. Its error is an
// *[Error].
func (c *Client) Do(ctx context.Context, want Request) (Answer, error) {
	a := &attempts{client: c, want: want, got: Answer{Op: c.op(want)}}
	err := a.run(ctx)
	if err != nil {
		verdict := Judge(err)
		if err = plain(err); ctx.Err() != nil && verdict.Again {
			verdict.Kind, err = ErrTimeout, &LateError{last: a.last}
		}
		err = &Error{Op: a.got.Op, Kind: verdict.Kind, Err: err}
	}
	return a.got, err
}

// run makes the request until an attempt succeeds or the policy gives up.
func (a *attempts) run(ctx context.Context) error {
	var body any
	if a.want.Body != nil {
		body = a.want.Body
	} else { // conditions are for GET
		a.held = a.want.Held.usable()
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, a.want.method(), a.client.target(a.want).String(), body)
	if err != nil {
		return err
	}
	a.client.describe(ctx, req.Header, a.want, a.held)
	req.SetResponseHandler(a.take)
	// A client for each request: it is a few words that hold the policy's state, while the
	// connections are in the http.Client that all share.
	client := &retryablehttp.Client{
		HTTPClient:     a.client.http,
		RetryMax:       a.client.options.Retries, // check decides
		CheckRetry:     a.check,
		Backoff:        func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return a.wait },
		RequestLogHook: func(retryablehttp.Logger, *http.Request, int) { a.got.Attempts++ },
		ErrorHandler:   func(_ *http.Response, err error, _ int) (*http.Response, error) { return nil, err },
	}
	_, err = client.Do(req) //nolint:bodyclose // take closes it
	return err
}

// take is a retryablehttp.ResponseHandlerFunc, so that a body that was cut short is a failed
// attempt. It closes the response.
func (a *attempts) take(resp *http.Response) error {
	defer drain(resp)
	if files := a.client.files; files != nil {
		a.got.Op = files.op(resp.Request.URL)
	}
	return a.got.take(resp, a.want, a.held, a.client.options.Authorization != "", a.client.options.RetryAfter)
}

// check is a retryablehttp.CheckRetry. It is called after each request, and again with the error of
// take.
func (a *attempts) check(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	wait, again := a.client.options.again(ctx, err, a.got.Attempts)
	if !again {
		return false, err
	}
	a.wait, a.last = wait, plain(err)
	a.client.options.Logger.LogAttrs(ctx, slog.LevelDebug, "upstream attempt failed, trying again",
		slog.String("resource", a.want.Resource), slog.Int("attempt", a.got.Attempts),
		slog.Duration("wait", wait), slog.String("error", a.client.Mask(a.last.Error())))
	return true, nil
}

// take reads resp into got, if it has a document or confirms the one held.
func (got *Answer) take(resp *http.Response, want Request, held Validators, credentials bool, own retryafter.Field) error {
	got.Status, got.Header = resp.StatusCode, resp.Header
	got.Validators, got.Age = validatorsOf(resp.Header), ageOf(resp.Header)
	switch {
	case resp.StatusCode == http.StatusOK:
		var err error
		got.Body, err = readBody(resp, want.Limit)
		return err
	case resp.StatusCode == http.StatusNotModified && held != Validators{}:
		got.NotModified, got.Validators = true, got.Validators.or(held)
		return nil
	default:
		err := &StatusError{Code: resp.StatusCode, RetryAfter: retryafter.Of(resp, longestAfter, own)}
		err.read(resp, credentials)
		return err
	}
}
