package cache

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

// A Document is one version of one resource. It is shared by every reader and never modified.
type Document struct {
	// Body is the normalized content, as it is served without any content coding.
	Body []byte
	// ETag is the strong entity-tag of Body, quotes included: see [ETag].
	ETag string
	// FetchedAt is when the CMS answered with Body, or last confirmed it.
	// Like the two times below it is on this process's clock, whatever clock Redis has.
	FetchedAt time.Time
	// ChangedAt is when Body last became different from what it was before.
	ChangedAt time.Time
	// FreshUntil is when the document becomes stale; after a soft purge it is FetchedAt.
	FreshUntil time.Time
	// UpstreamETag and UpstreamLastModified are the validators that the CMS sent, empty where it sent none.
	UpstreamETag, UpstreamLastModified string
}

// ETag is the strong entity-tag of a representation: a quoted hash of its bytes.
// In Redis it is also the check on the body beside it.
func ETag(representation []byte) string {
	sum := sha256.Sum256(representation)
	return ETagOfSum(sum[:])
}

// ETagOfSum is [ETag] for a representation of which only the SHA-256 is at hand.
func ETagOfSum(sum []byte) string {
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// Loaded is what a [Loader] brings.
type Loaded struct {
	// NotModified says that the held document is still right; Body is then not looked at.
	NotModified bool
	// Body is the normalized content. One that is empty is an error.
	Body []byte
	// UpstreamETag and UpstreamLastModified are kept with the document and given back with the next load.
	UpstreamETag, UpstreamLastModified string
	// Status is the HTTP status of the CMS's answer, for Cache-Status; 0 when there was none.
	Status int
}

// A Loader fetches the newest version of a resource from where it comes from.
//
// Held is the version that a NotModified answer would renew, nil when there is none.
// Load is called by one goroutine at a time per resource, and ends when ctx does.
type Loader interface {
	Load(ctx context.Context, key string, held *Document) (Loaded, error)
}

// LoaderFunc is a function as a [Loader].
type LoaderFunc func(ctx context.Context, key string, held *Document) (Loaded, error)

// Load calls f.
func (f LoaderFunc) Load(ctx context.Context, key string, held *Document) (Loaded, error) {
	return f(ctx, key, held)
}

// An Answer is what a read gives: the prepared value, the document it was made from, and how it was come by.
type Answer[V any] struct {
	Value    V
	Document *Document
	Status   Status
}

// Status tells where an answer came from and why, in the terms of RFC 9211 (Cache-Status).
type Status struct {
	// Hit says that the answer was given without waiting for a fetch, fresh or stale.
	Hit bool
	// Stale says that the document was past its freshness when it was given.
	Stale bool
	// Fwd is why a fetch was waited for: [FwdMiss] or [FwdStale]; empty on a hit.
	Fwd string
	// FwdStatus is the HTTP status of the CMS's answer to that fetch; 0 when not known here.
	FwdStatus int
	// Stored says that the fetched document is now in Redis.
	Stored bool
	// Collapsed says that the fetch was made for another request, of this process or of another.
	Collapsed bool
	// Detail is one of the Detail constants, or empty.
	Detail string
}

// Why a fetch was waited for (RFC 9211, section 2.2).
const (
	FwdMiss  = "miss"
	FwdStale = "stale"
)

// What a Status can add.
const (
	DetailMemory         = "memory"                 // fresh, from this process
	DetailRedis          = "redis"                  // fresh, checked against Redis for this answer
	DetailRevalidate     = "stale-while-revalidate" // stale, and being refreshed
	DetailIfError        = "stale-if-error"         // stale, and the CMS fails
	DetailSlow           = "stale-while-slow"       // stale, and the CMS did not answer in the time a visitor should wait
	DetailLeaseElsewhere = "lease-elsewhere"        // another process fetched it
	DetailRedisAway      = "redis-away"             // Redis is unreachable: this process is on its own
	DetailRedisRefused   = "redis-refused"          // Redis refused to store it
	DetailRedisLost      = "redis-lost"             // stale: Redis has lost its data, and the CMS fails
)

// ErrWait means that a reader gave up waiting; the fetch goes on without it.
var ErrWait = errors.New("no answer within the time a reader waits")

// A RetryError is a failure to get a document that nothing can be served instead of.
type RetryError struct {
	// After is in how long the next attempt will be made; 0 when not known.
	After time.Duration
	// Err is why the last attempt failed.
	Err error
}

// Error gives the reason and the time.
func (e *RetryError) Error() string {
	if e.After <= 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; next attempt in %v", e.Err, e.After.Round(time.Millisecond))
}

// Unwrap gives the reason.
func (e *RetryError) Unwrap() error { return e.Err }
