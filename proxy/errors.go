package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

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

// fail answers a request with an error. The cause goes to the log. A failed fetch was logged once
// where it was made, so here it is a debug line.
func (s *Server) fail(r *request, err error) {
	f := failureOf(err)
	level := slog.LevelDebug
	if f == &internalFailure {
		level = slog.LevelError
	}
	ctx := r.ctx
	clientOf(ctx).leave()
	s.options.Logger.Log(s.base, level, "request failed", "method", string(ctx.Method()), "path", string(ctx.Path()),
		"status", f.status, "request_id", r.id(), "error", err)

	detail := strings.ReplaceAll(f.detail, "METHOD", string(ctx.Method()))
	r.writeCommon()
	h := &ctx.Response.Header
	ctx.SetStatusCode(f.status)
	h.SetContentType(contentJSON)
	if r.route != nil && f != &internalFailure {
		h.Set(fiber.HeaderVary, s.terms.vary)
		h.Set(fiber.HeaderAllow, allowed)
	} else {
		r.writeVary()
	}
	switch f.status {
	case http.StatusNotFound, http.StatusNotAcceptable, http.StatusMethodNotAllowed: // no request id, which a cache would give to everybody
	default:
		h.Set(fiber.HeaderCacheControl, "no-store")
		h.Set(fiber.HeaderXRequestID, r.id())
	}
	if f.status == http.StatusServiceUnavailable {
		h.Set(fiber.HeaderRetryAfter, strconv.FormatInt(retrySeconds(err), 10))
	}
	body, _ := json.Marshal(map[string]string{"detail": detail}) // a text
	ctx.SetBody(body)
	if r.bytes = len(ctx.Response.Body()); ctx.IsHead() {
		r.bytes = 0
	}
}

// writeForwarded writes Cache-Status for an answer without a document.
func (r *request) writeForwarded(st *cache.Status, err error) {
	said := *st
	said.Fwd, said.Detail = cmp.Or(said.Fwd, cache.FwdMiss), cmp.Or(said.Detail, errorDetail(err))
	r.ctx.Response.Header.SetBytesV(cacheStatus, appendCacheStatus(nil, &said, 0))
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

// failUnread answers a request that fasthttp could not read; the connection is closed after it.
func (s *Server) failUnread(ctx *fasthttp.RequestCtx, err error) {
	r := s.newRequest(ctx)
	r.read = len(ctx.Request.Header.RawHeaders()) > 0
	c := clientOf(ctx)
	s.fail(r, unreadError(c, err))
	ctx.Response.SkipBody = ctx.IsHead() || c != nil && c.framing.isHead() // fasthttp has forgotten most headers it refused
	if ctx.Response.SkipBody {
		r.bytes = 0
	}
	s.finish(r, time.Time{})
}

// unreadError maps an error of reading a request to the table's.
func unreadError(c *client, err error) error {
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSmall := errors.AsType[*fasthttp.ErrSmallBuffer](err)
	switch {
	case errors.Is(err, errTooManyConnections):
		return err
	case c != nil && c.told:
		return c.refused
	case isSmall && c != nil && c.framing.part == requestLine:
		return errTargetTooLong // the buffer is full without a complete line
	case isSmall:
		return errHeaderTooLong
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case isNet && netErr.Timeout():
		return errSlowClient
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", errMalformed)
	}
	return errMalformed
}
