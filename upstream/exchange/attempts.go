package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	client        *Client
	want          Request
	held          Validators // that the request carries
	got           Answer
	authorization string // of the present attempt
	renewed       bool   // the token of the present attempt is new
	wait          time.Duration
	last          error // of the attempt before
}

// Do makes the request, and repeats it where the table in retry.go says so. Its error is an
// *[Error].
func (c *Client) Do(ctx context.Context, want Request) (Answer, error) {
	ctx, span := StartSpan(ctx, "page", want.Resource)
	a := &attempts{client: c, want: want, got: Answer{Op: c.op(want)}}
	err := a.run(ctx)
	if err != nil {
		verdict := Judge(err)
		if err = WithoutURL(err); ctx.Err() != nil && verdict.Again {
			verdict.Kind, err = ErrTimeout, &LateError{last: a.last}
		}
		err = &Error{Op: a.got.Op, Kind: verdict.Kind, Err: err}
	}
	endPage(span, want, a.got, err)
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
	if err := a.authorize(req.Request); err != nil {
		a.got.Attempts++
		return err
	}
	req.SetResponseHandler(a.take)
	// A client for each request: it is a few words that hold the policy's state, while the
	// connections are in the http.Client that all share.
	client := &retryablehttp.Client{
		HTTPClient:     a.client.http,
		RetryMax:       2*a.client.options.Retries + 1, // check decides; each attempt may renew a token
		CheckRetry:     a.check,
		Backoff:        func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return a.wait },
		PrepareRetry:   a.authorize,
		RequestLogHook: func(retryablehttp.Logger, *http.Request, int) { a.got.Attempts++ },
		ErrorHandler:   func(_ *http.Response, err error, _ int) (*http.Response, error) { return nil, err },
	}
	_, err = client.Do(req) //nolint:bodyclose // take closes it
	return err
}

// authorize sets the Authorization header, after a login if there is one.
func (a *attempts) authorize(req *http.Request) (err error) {
	a.authorization = a.client.options.Authorization
	if login := a.client.options.Login; login != nil {
		if a.authorization, err = login.authorization(req.Context(), a.client); err != nil {
			return err
		}
	}
	if a.authorization != "" {
		req.Header.Set("Authorization", a.authorization)
	}
	return nil
}

// take is a retryablehttp.ResponseHandlerFunc, so that a body that was cut short is a failed
// attempt. It closes the response.
func (a *attempts) take(resp *http.Response) error {
	defer drain(resp)
	if files := a.client.files; files != nil {
		a.got.Op = files.op(resp.Request.URL)
	}
	if a.client.options.Record != nil {
		var copied bytes.Buffer
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, &copied), resp.Body}
		defer func() { a.client.record(a.want, resp, a.authorization, copied.Bytes()) }()
	}
	err := a.got.take(resp, a.want, a.held, a.authorization != "")
	if status, ok := errors.AsType[*StatusError](err); ok && a.client.files == nil {
		status.Query = a.client.Query(a.want)
	}
	return err
}

// check is a retryablehttp.CheckRetry. It is called after each request, and again with the error of
// take.
func (a *attempts) check(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusUnauthorized && a.client.options.Login != nil && !a.renewed {
		a.client.options.Login.refused(a.authorization)
		a.renewed, a.wait = true, 0
		a.got.Attempts-- // the same attempt, with a new token
		return true, nil
	}
	wait, again := a.client.options.again(ctx, err, a.got.Attempts)
	if !again {
		return false, err
	}
	a.renewed, a.wait, a.last = false, wait, WithoutURL(err)
	a.client.options.Logger.LogAttrs(ctx, slog.LevelDebug, "upstream attempt failed, trying again",
		slog.String("resource", a.want.Resource), slog.Int("attempt", a.got.Attempts),
		slog.Duration("wait", wait), slog.String("error", a.client.Redact(a.last.Error())))
	return true, nil
}

// take reads resp into got, if it has a document or confirms the one held.
func (got *Answer) take(resp *http.Response, want Request, held Validators, credentials bool) error {
	got.Status, got.Header = resp.StatusCode, resp.Header
	got.Validators = Validators{
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
	}.usable()
	switch {
	case resp.StatusCode == http.StatusOK:
		body, err := readBody(resp, want.Limit)
		got.Body = body
		return err
	case resp.StatusCode == http.StatusNotModified && held != Validators{}:
		got.NotModified, got.Validators = true, got.Validators.or(held)
		return nil
	default:
		err := &StatusError{Code: resp.StatusCode, RetryAfter: retryafter.Of(resp, longestAfter)}
		err.read(resp, credentials)
		return err
	}
}
