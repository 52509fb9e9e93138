package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// The whole retry policy is in this file. The table below gives the consequence of each failure; a
// test writes it to docs/failures.md.
//
// An attempt is repeated up to Options.Retries times, after RetryWait, doubled each time up to
// MaxRetryWait, half of it random; later if the response has a Retry-After. A wait that would end
// after the fetch's deadline is not begun; the last failure is reported instead. A failed response
// is read to its end or closed within the attempt, and only its status, Retry-After and kind are
// kept.

// A Verdict is the consequence of a failure.
type Verdict struct {
	Kind  error // its sentinel
	Again bool  // it is repeated, within the retries and the time
	Trips bool  // it counts towards opening the breaker; any other is a sign of life
}

// A rule is a row of the table; the first that matches applies.
type rule struct {
	met   string
	match func(error) bool
	Verdict
}

// rules are the table.
var rules = []rule{
	{"the breaker is open", is(ErrOpen), Verdict{ErrOpen, false, false}},
	{"the time for the fetch ran out", isLate, Verdict{ErrTimeout, false, true}},
	{"status 408, 425, 429", status(408, 425, 429), Verdict{ErrAnswer, true, true}},
	{"status 500, 502, 503, 504, 520 to 524", status(500, 502, 503, 504, 520, 521, 522, 523, 524), Verdict{ErrAnswer, true, true}},
	{"status 401 of a Strapi to a request without credentials: its database is down", isOutage, Verdict{ErrAnswer, true, true}},
	{"status 401, 403, 404, 407, 410, 451", status(401, 403, 404, 407, 410, 451), Verdict{ErrAnswer, false, false}},
	{"any other status from 400 to 499", statusIn(400, 499), Verdict{ErrAnswer, false, false}},
	{"any other status from 500 on", statusIn(500, 999), Verdict{ErrAnswer, false, true}},
	{"any other status; 304 without being asked", statusIn(0, 399), Verdict{ErrAnswer, false, false}},
	{"a redirect to another host, or too many", fault(FaultRedirect), Verdict{ErrAnswer, false, false}},
	{"200 with a body that is empty, cut short or damaged", fault(FaultDamaged), Verdict{ErrAnswer, true, true}},
	{"200 with an HTML page, a login form, or an error in JSON", fault(FaultPage), Verdict{ErrAnswer, false, true}},
	{"200 with a body too large, or of another type, charset or encoding", fault(FaultContent), Verdict{ErrAnswer, false, false}},
	{"200 with JSON that is refused", is(ErrAnswer), Verdict{ErrAnswer, false, false}},
	{"a folder that is gone", fault(FaultFolder), Verdict{ErrUnreachable, false, false}},
	{"a file that cannot be read", fault(FaultFile), Verdict{ErrAnswer, false, false}},
	{"a certificate that is not trusted; no TLS on that port", isTLS, Verdict{ErrUnreachable, false, true}},
	{"any other fault of name, connection or protocol", func(error) bool { return true }, Verdict{ErrUnreachable, true, true}},
}

// Judge finds the row of a failure. Its callers handle cancelled contexts.
func Judge(err error) Verdict {
	for _, r := range rules {
		if r.match(err) {
			return r.Verdict
		}
	}
	panic("exchange: the last rule fits everything")
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

func fault(kind FaultKind) func(error) bool {
	return has(func(e *FaultError) bool { return e.Kind == kind })
}

var (
	isLate   = has(func(*LateError) bool { return true })
	isOutage = has(func(e *StatusError) bool { return e.Outage })
)

func isTLS(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return certificate || record || errors.Is(err, http.ErrSchemeMismatch)
}

// again reports whether a failed attempt is repeated, and after which wait.
func (o *Options) again(ctx context.Context, err error, made int) (wait time.Duration, again bool) {
	if ctx.Err() != nil || !Judge(err).Again || made > o.Retries {
		return 0, false
	}
	wait = o.pause(made, RetryAfter(err))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false
	}
	return wait, true
}

// pause is the wait after a number of attempts.
func (o *Options) pause(made int, retryAfter time.Duration) time.Duration {
	full := o.MaxRetryWait
	if doublings := made - 1; doublings < 32 {
		full = min(full, o.RetryWait<<doublings)
	}
	jittered := full/2 + rand.N(full/2+1)
	if retryAfter > 0 {
		// Never earlier than asked, and not all replicas at once.
		return max(jittered, retryAfter+rand.N(full/2+1))
	}
	return jittered
}
