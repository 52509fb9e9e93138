package exchange

import (
	"io"
	"net/http"
	"time"
)

const (
	// maxValidator is the longest ETag or Last-Modified worth keeping.
	maxValidator = 1 << 10
	// maxDrain is read of a body that nobody wants, to keep its connection.
	maxDrain = 4 << 10
)

// Validators let the CMS say that a copy is still good. They are kept as the CMS sent them. The zero
// value asks for the document whatever it is.
type Validators struct{ ETag, LastModified string }

// usable drops what cannot be sent back as a header.
func (v Validators) usable() Validators {
	if len(v.ETag) > maxValidator || !IsHeaderValue(v.ETag) {
		v.ETag = ""
	}
	if len(v.LastModified) > maxValidator || !IsHeaderValue(v.LastModified) {
		v.LastModified = ""
	}
	return v
}

// or fills what v lacks from held: a 304 need not repeat everything.
func (v Validators) or(held Validators) Validators {
	if v.ETag == "" {
		v.ETag = held.ETag
	}
	if v.LastModified == "" {
		v.LastModified = held.LastModified
	}
	return v
}

// take reads resp into got, if it brings a document, or the news that the one held is still good.
func (got *Answer) take(resp *http.Response, limit Limit, held Validators, credentials bool) error {
	got.Status, got.Header = resp.StatusCode, resp.Header
	got.Validators = Validators{
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
	}.usable()
	switch {
	case resp.StatusCode == http.StatusOK:
		body, err := readBody(resp, limit)
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

// drain lets the connection of resp be used again, if little is left of its body.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only for the connection's sake
	_ = resp.Body.Close()
}
