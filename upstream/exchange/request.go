package exchange

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vitrine/upstream/retryafter"
)

// Options apply to all requests.
type Options struct {
	// Authorization is the value of that header, "Bearer …". It is sent to the CMS only and never
	// logged. Empty sends none.
	Authorization string
	// Headers are sent with every request.
	Headers map[string]string
	// Query is added to every request.
	Query url.Values
	// Secrets are values that nothing shows.
	Secrets []string
	// Retries is how often a failed attempt is repeated. Zero means never.
	Retries int
	// RetryWait is the wait before the first retry. It doubles with each further one up to
	// MaxRetryWait, and half of it is random. For package upstream, zero means 200ms and 2s. A
	// Retry-After of the CMS may ask for more.
	RetryWait, MaxRetryWait time.Duration
	// RetryAfter is the CMS's own field beside Retry-After; the zero value is none.
	RetryAfter retryafter.Field
	// Transport reaches the CMS. Nil is net/http's, with bounds.
	Transport http.RoundTripper
	// Logger logs retries and the breaker. For package upstream, nil discards.
	Logger *slog.Logger
}

// Request is a request for one response.
type Request struct {
	Resource string // for logs and spans
	Part     string // its name; empty for the document itself
	Page     int    // from 1
	Path     string // relative to the base URL, perhaps with a query
	Query    string // added to that of Path
	Headers  map[string]string
	Limit    Limit
	Held     Validators // of the copy that the response may confirm
	NoCache  bool       // asks caches on the way to pass it on
	// Body makes it a POST. Type is its Content-Type.
	Body []byte
	Type string
}

func (r *Request) method() string {
	if r.Body != nil {
		return http.MethodPost
	}
	return http.MethodGet
}

// Answer is a response. After an error, only Op, Status and Attempts are valid.
type Answer struct {
	Op          string // how it was obtained, for errors about its content: "GET http://cms/gvapp/"
	Status      int
	Attempts    int
	NotModified bool // the CMS confirmed the copy of Held; there is no Body
	Body        []byte
	Age         time.Duration // spent in caches on the way
	Header      http.Header
	Validators  Validators
}

// maxValidator is the longest ETag or Last-Modified worth keeping.
const maxValidator = 1 << 10

// Validators make a request conditional. They are kept as the CMS sent them. The zero value makes
// an unconditional request.
type Validators struct{ ETag, LastModified string }

// validatorsOf are the validators of a response. A Last-Modified within two seconds of Date may stay
// the same after another edit (RFC 9110, section 8.8.2.2).
func validatorsOf(h http.Header) Validators {
	v := Validators{ETag: h.Get("ETag"), LastModified: h.Get("Last-Modified")}
	modified, err := http.ParseTime(v.LastModified)
	sent, noDate := http.ParseTime(h.Get("Date"))
	if err != nil || noDate != nil || sent.Sub(modified) < 2*time.Second {
		v.LastModified = ""
	}
	return v.usable()
}

// ageOf is the Age of a response, at most a year; 0 if it has none that can be read.
func ageOf(h http.Header) time.Duration {
	const most = 365 * 24 * time.Hour
	first, _, _ := strings.Cut(h.Get("Age"), ",")
	seconds, err := strconv.ParseUint(strings.TrimSpace(first), 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0
	case seconds > uint64(most/time.Second):
		return most
	}
	return time.Duration(seconds) * time.Second
}

// usable drops validators that cannot be sent as a header.
func (v Validators) usable() Validators {
	if len(v.ETag) > maxValidator || !isHeaderValue(v.ETag) {
		v.ETag = ""
	}
	if len(v.LastModified) > maxValidator || !isHeaderValue(v.LastModified) {
		v.LastModified = ""
	}
	return v
}

// or fills missing ones from held: a 304 need not repeat them.
func (v Validators) or(held Validators) Validators {
	return Validators{cmp.Or(v.ETag, held.ETag), cmp.Or(v.LastModified, held.LastModified)}
}
