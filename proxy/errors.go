package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"vitrine/cache"
	"vitrine/upstream"
)

// The errors of a request.
var (
	errNoRoute       = errors.New("no such path")
	errFormat        = errors.New("unknown format")
	errNotAcceptable = errors.New("no acceptable media type")
	errMethod        = errors.New("method not allowed")
	errPrecondition  = errors.New("precondition failed")
	errTargetTooLong = errors.New("request target too long")
	errHeaderTooLong = errors.New("request header too long")
	errBodyTooLarge  = errors.New("request body too large")
	errSlowClient    = errors.New("request not received in time")
	errVersion       = errors.New("HTTP version not supported")
	errMalformed     = errors.New("malformed request")
	errPanic         = errors.New("panic")

	errTooManyConnections = errors.New("too many connections")
)

// retryAfter is the default Retry-After.
const retryAfter = 5 * time.Second

// A failure is a row of the table below: how an error is answered. At one of the three paths the
// answer also has Allow and Vary, as in Django REST Framework; a 503 has Retry-After; and the
// refusal of a path, method or media type, which does not change, can be cached.
type failure struct {
	err    error
	status int
	// detail is the body's only field, in Django REST Framework's words if it has any.
	detail string
}

// failures say how errors are answered; the first row that matches applies.
var failures = []failure{
	{errNoRoute, http.StatusNotFound, "Not found."},
	{errFormat, http.StatusNotFound, "Not found."},
	{errNotAcceptable, http.StatusNotAcceptable, "Could not satisfy the request Accept header."},
	{errMethod, http.StatusMethodNotAllowed, `Method "METHOD" not allowed.`},
	{errPrecondition, http.StatusPreconditionFailed, "Precondition failed."},

	{errTargetTooLong, http.StatusRequestURITooLong, "Request target too long."},
	{errHeaderTooLong, http.StatusRequestHeaderFieldsTooLarge, "Request header too large."},
	{errBodyTooLarge, http.StatusRequestEntityTooLarge, "Request body too large."},
	{errSlowClient, http.StatusRequestTimeout, "Request not received in time."},
	{errVersion, http.StatusHTTPVersionNotSupported, "HTTP version not supported."},
	{errMalformed, http.StatusBadRequest, "Malformed request."},

	{errTooManyConnections, http.StatusServiceUnavailable, "Too many connections."},

	{upstream.ErrAnswer, http.StatusBadGateway, "The CMS answered, but not with this document."},
	{cache.ErrHeld, http.StatusBadGateway, "The CMS answered, but not with this document."},
	{upstream.ErrTimeout, http.StatusGatewayTimeout, "The CMS did not answer in time."},
	{upstream.ErrOpen, http.StatusServiceUnavailable, "The CMS failed repeatedly and is left alone for a while."},
	{upstream.ErrUnreachable, http.StatusServiceUnavailable, "The CMS cannot be reached."},
	{cache.ErrWait, http.StatusGatewayTimeout, "The CMS did not answer in time."},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "The CMS did not answer in time."},
	{context.Canceled, http.StatusServiceUnavailable, "The server is shutting down."},
}

// internalFailure answers any other error.
var internalFailure = failure{nil, http.StatusInternalServerError, "Internal server error."}

func failureOf(err error) *failure {
	for i := range failures {
		if errors.Is(err, failures[i].err) {
			return &failures[i]
		}
	}
	return &internalFailure
}

// errorDetail is the detail of Cache-Status for an error of Documents.
func errorDetail(err error) string {
	if errors.Is(err, upstream.ErrOpen) {
		return "breaker-open"
	}
	if code := upstream.Code(err); code != "" {
		return "upstream-" + code
	}
	return ""
}

// retrySeconds is Retry-After, in whole seconds and at least one.
func retrySeconds(err error) int64 {
	after := retryAfter
	if r, ok := errors.AsType[*cache.RetryError](err); ok && r.After > 0 {
		after = r.After
	}
	return max(1, int64(math.Ceil(after.Seconds())))
}
