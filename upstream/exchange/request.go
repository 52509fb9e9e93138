package exchange

import (
	"log/slog"
	"net/http"
	"time"
)

// Options are what is the same for all requests.
type Options struct {
	// Authorization is the value of that header. Empty sends none.
	Authorization string
	// Headers are sent with every request.
	Headers map[string]string
	// Retries is how often a failed attempt may be made again.
	Retries int
	// RetryWait is the wait before the first retry. It doubles up to MaxRetryWait.
	RetryWait, MaxRetryWait time.Duration
	// Transport reaches the CMS. Nil is net/http's, with bounds.
	Transport http.RoundTripper
	// Logger logs retries.
	Logger *slog.Logger
}

// Request is one answer that is asked for.
type Request struct {
	Resource string // for logs and spans
	Part     string // its name; empty for the document itself
	Page     int    // from 1
	Path     string // relative to the base URL, perhaps with a query
	Query    string // added to that of Path
	Headers  map[string]string
	Limit    Limit
	Held     Validators // of the copy that the answer may confirm
}

// Answer is what came. On an error, only Op, Status and Attempts count.
type Answer struct {
	Op          string // how it was obtained, for errors about what is in it: "GET http://cms/gvapp/"
	Status      int
	Attempts    int
	NotModified bool // the copy that Held belongs to is still good; there is no Body
	Body        []byte
	Header      http.Header
	Validators  Validators
}

const (
	// maxValidator is the longest ETag or Last-Modified worth keeping.
	maxValidator = 1 << 10
	// maxDrain is read of a body that nobody wants, to keep its connection.
	maxDrain = 4 << 10
)

// Validators let the CMS say that a copy is still good. They are kept as the CMS sent them. The
// zero value asks for the document whatever it is.
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
