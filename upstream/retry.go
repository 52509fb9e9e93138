package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"vitrine/upstream/shape"
)

// The whole policy stands in this file: the table below says what becomes of a
// fetch, by what it met. docs/upstream.md shows the same table, and a test
// holds the two together.
//
// How often an attempt is made again: Options.Retries times. How long between:
// RetryWait, doubled each time up to MaxRetryWait, the half of which is random;
// longer if the answer has a Retry-After. How long in all: a wait that would
// end after the fetch's deadline is not begun, and the last failure is reported
// instead. What becomes of the last response: it is read to its end or closed
// within the attempt, and only its status, Retry-After and kind are kept.

// A verdict is what a failure leads to.
type verdict struct {
	kind  error // what it is in the end
	again bool  // it is asked again, within the retries and the time
	trips bool  // it counts towards opening the breaker; any other counts as a sign of life
}

// A rule is a row of the table: the first that fits counts.
type rule struct {
	met   string
	match func(error) bool
	verdict
}

// rules are the table.
var rules = []rule{
	{"the breaker is open", is(ErrOpen), verdict{ErrOpen, false, false}},
	{"the time for the fetch ran out", isLate, verdict{ErrTimeout, false, true}},
	{"status 408, 425, 429", status(408, 425, 429), verdict{ErrAnswer, true, true}},
	{"status 500, 502, 503, 504, 520 to 524", status(500, 502, 503, 504, 520, 521, 522, 523, 524), verdict{ErrAnswer, true, true}},
	{"status 401 of a Strapi to a request without credentials: its database is down", isOutage, verdict{ErrAnswer, true, true}},
	{"status 401, 403, 404, 407, 410, 451", status(401, 403, 404, 407, 410, 451), verdict{ErrAnswer, false, false}},
	{"any other status from 400 to 499", statusIn(400, 499), verdict{ErrAnswer, false, false}},
	{"any other status from 500 on", statusIn(500, 999), verdict{ErrAnswer, false, true}},
	{"any other status; 304 without being asked", statusIn(0, 399), verdict{ErrAnswer, false, false}},
	{"a redirect to another host, or too many", isRedirect, verdict{ErrAnswer, false, false}},
	{"200 with a body that is empty, cut short or damaged", isDamaged, verdict{ErrAnswer, true, true}},
	{"200 with an HTML page, a login form, or an error in JSON", isPage, verdict{ErrAnswer, false, true}},
	{"200 with what is too large, or of another type, charset or encoding", isContent, verdict{ErrAnswer, false, false}},
	{"200 with JSON that is refused", isRefused, verdict{ErrAnswer, false, false}},
	{"a certificate that is not trusted; no TLS on that port", isTLS, verdict{ErrUnreachable, false, true}},
	{"any other fault of name, connection or protocol", func(error) bool { return true }, verdict{ErrUnreachable, true, true}},
}

// judge finds the row of a failure. It leaves contexts that were cancelled to its callers.
func judge(err error) verdict {
	for _, r := range rules {
		if r.match(err) {
			return r.verdict
		}
	}
	panic("upstream: the last rule fits everything")
}

func is(sentinel error) func(error) bool {
	return func(err error) bool { return errors.Is(err, sentinel) }
}

func has[E error](fits func(E) bool) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[E](err)
		return ok && fits(e)
	}
}

func status(codes ...int) func(error) bool {
	return has(func(e *StatusError) bool { return slices.Contains(codes, e.Code) && !e.Outage })
}

func statusIn(from, to int) func(error) bool {
	return has(func(e *StatusError) bool { return from <= e.Code && e.Code <= to && !e.Outage })
}

var (
	isLate     = has(func(*lateError) bool { return true })
	isOutage   = has(func(e *StatusError) bool { return e.Outage })
	isRedirect = has(func(*RedirectError) bool { return true })
	isDamaged  = has(func(e *ContentError) bool { return e.Damaged })
	isPage     = has(func(e *ContentError) bool { return e.Page })
	isContent  = has(func(*ContentError) bool { return true })
)

// isRefused also stands for whatever else was found wrong with an answer that
// came whole: a walk through pages that does not end, a program that fails.
func isRefused(err error) bool { return errors.Is(err, shape.ErrRefused) || errors.Is(err, ErrAnswer) }

func isTLS(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return certificate || record || errors.Is(err, http.ErrSchemeMismatch)
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
