package exchange

import (
	"io"
	"net/http"
	"time"
)

// take reads resp into got, if it has a document or confirms the one held.
func (got *Answer) take(resp *http.Response, want Request, held Validators, credentials bool) error {
	got.Status, got.Header = resp.StatusCode, resp.Header
	got.Validators = Validators{
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
	}.usable()
	switch {
	case resp.StatusCode == http.StatusOK:
		body, err := readBody(resp, want.Limit, want.Types)
		got.Body = body
		return err
	case resp.StatusCode == http.StatusNotModified && held != Validators{}:
		got.NotModified, got.Validators = true, got.Validators.or(held)
		return nil
	default:
		err := &StatusError{Code: resp.StatusCode, RetryAfter: parseRetryAfter(resp.Header, time.Now())}
		err.read(resp, credentials)
		return err
	}
}

// drain makes the connection of resp reusable, if little is left of its body.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only for the connection's sake
	_ = resp.Body.Close()
}
