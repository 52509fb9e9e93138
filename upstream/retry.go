package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vitrine/upstream/shape"
)

// The whole retry policy stands in this file.
//
//	what an attempt met                               again?   what it is in the end
//	------------------------------------------------  -------  ---------------------
//	200; 304 to validators that were sent             –        the document
//	408, 425, 429, 500, 502, 503, 504, 520 to 524     yes      ErrAnswer
//	any other status, 304 without being asked         no       ErrAnswer
//	redirect to elsewhere, or too many                no       ErrAnswer
//	body cut short or damaged                         yes      ErrAnswer
//	too large, not JSON, not UTF-8, other encoding    no       ErrAnswer
//	JSON that is refused (after the attempts)         no       ErrAnswer
//	certificate not trusted, no TLS on that port      no       ErrUnreachable
//	any other fault of name, connection or protocol   yes      ErrUnreachable
//	the time for the fetch ran out                    no       ErrTimeout
//	the caller cancelled                              no       the context's error, not the upstream's
//
// How often: Options.Retries times. How long between: RetryWait, doubled each
// time up to MaxRetryWait, the half of which is random; longer if the answer
// has a Retry-After. How long in all: a wait that would end after
// the fetch's deadline is not begun, and the last failure is reported instead.
// What becomes of the last response: it is read to its end or closed within the
// attempt, and only its status, Retry-After and kind are kept.

// retried are the statuses that may be gone the next time.
var retried = map[int]bool{
	http.StatusRequestTimeout:      true,
	http.StatusTooEarly:            true,
	http.StatusTooManyRequests:     true,
	http.StatusInternalServerError: true,
	http.StatusBadGateway:          true,
	http.StatusServiceUnavailable:  true,
	http.StatusGatewayTimeout:      true,
	// What content delivery networks answer for an origin that fails them.
	520: true, 521: true, 522: true, 523: true, 524: true,
}

// verdict is a row of the table.
type verdict struct {
	kind  error
	again bool
}

// judge finds the row of a failed attempt. It leaves contexts to its callers.
func judge(err error) verdict {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return verdict{ErrAnswer, retried[status.Code]}
	}
	if content, ok := errors.AsType[*ContentError](err); ok {
		return verdict{ErrAnswer, content.Damaged}
	}
	if _, ok := errors.AsType[*RedirectError](err); ok {
		return verdict{ErrAnswer, false}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return verdict{ErrUnreachable, false}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return verdict{ErrUnreachable, false}
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return verdict{ErrUnreachable, false}
	}
	return verdict{ErrUnreachable, true}
}

// attempts is the policy at work in one fetch. It is used by one goroutine.
type attempts struct {
	resource shape.Resource
	options  *Options
	made     int
	wait     time.Duration // before the next attempt
	last     error         // of the attempt before this one
}

// check is a retryablehttp.CheckRetry. It is asked after each request, and once
// more with what the response handler made of the response.
func (a *attempts) check(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	if ctx.Err() != nil || !judge(err).again || a.made > a.options.Retries {
		return false, err
	}
	a.wait = a.pause(RetryAfter(err))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= a.wait {
		return false, err
	}
	a.last = bare(err)
	a.options.Logger.LogAttrs(ctx, slog.LevelInfo, "upstream attempt failed, trying again",
		slog.String("resource", string(a.resource)), slog.Int("attempt", a.made),
		slog.Duration("wait", a.wait), slog.Any("error", a.last))
	return true, nil
}

// pause is how long to wait after the attempt just made.
func (a *attempts) pause(retryAfter time.Duration) time.Duration {
	full := a.options.MaxRetryWait
	if doublings := a.made - 1; doublings < 32 {
		full = min(full, a.options.RetryWait<<doublings)
	}
	jittered := full/2 + rand.N(full/2+1)
	if retryAfter > 0 {
		// Never earlier than asked, and not all replicas at once.
		return max(jittered, retryAfter+rand.N(full/2+1))
	}
	return jittered
}

// backoff is a retryablehttp.Backoff. check has decided already.
func (a *attempts) backoff(time.Duration, time.Duration, int, *http.Response) time.Duration {
	return a.wait
}

// bare takes off what net/http wraps around every error of a request: the
// method and URL, which FetchError says once for all attempts.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// longest bounds what a CMS may ask for.
const longest = 24 * time.Hour

// parseRetryAfter reads a Retry-After, in seconds or as a date (RFC 9110,
// section 10.2.3). A date counts from the answer's own Date, so that a clock
// that is wrong over there does no harm; now stands in for a missing one.
// What cannot be read, or is past, is 0.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	when, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(when.Sub(now), 0), longest)
}
