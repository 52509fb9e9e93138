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
	// Body is the normalized content, without content coding.
	Body []byte
	// ETag is the strong entity-tag of Body, quotes included: see [ETag].
	ETag string
	// FetchedAt is when Body was fetched or last confirmed. Like the two times below it is on this
	// process's clock.
	FetchedAt time.Time
	// Age is how old the response was by then, which caches on the way kept.
	Age time.Duration
	// ChangedAt is when Body last changed.
	ChangedAt time.Time
	// FreshUntil is when the document becomes stale; after a soft purge it is FetchedAt.
	FreshUntil time.Time
	// UpstreamETag and UpstreamLastModified are the CMS's validators, or empty.
	UpstreamETag, UpstreamLastModified string
	// Suspicions is what the loader found to say about Body, in a form of its own.
	Suspicions string
	// RestoredBy is who has restored it from the history: nothing is fetched until FreshUntil. Empty if
	// it was fetched.
	RestoredBy string
}

// ETag is the strong entity-tag of a representation: a quoted hash of its bytes. In Redis it is
// also the check on the body beside it.
func ETag(representation []byte) string {
	sum := sha256.Sum256(representation)
	return ETagOfSum(sum[:])
}

// ETagOfSum is [ETag] for the SHA-256 of a representation.
func ETagOfSum(sum []byte) string {
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// Loaded is the result of a [Loader].
type Loaded struct {
	// NotModified says that the held document is current; Body is then ignored.
	NotModified bool
	// Body is the normalized content. An empty one is an error.
	Body []byte
	// UpstreamETag and UpstreamLastModified are kept with the document and passed to the next load.
	UpstreamETag, UpstreamLastModified string
	// Suspicions is kept with the document, also with one that is renewed.
	Suspicions string
	// Status is the HTTP status of the CMS's response, for Cache-Status; 0 if there was none.
	Status int
	// Age is how long ago the CMS sent it to a cache on the way: its freshness and its age begin then.
	Age time.Duration
	// Fresh is how long it is fresh at most; 0 is the TTL. After that it is loaded again, also if there
	// are no requests.
	Fresh time.Duration
}

// freshness is how much of a freshness is left: a tenth in any case, and a second, or a cache on the
// way whose responses are older would have each request fetch again.
func (l *Loaded) freshness(ttl time.Duration) time.Duration {
	if l.Fresh > 0 {
		return min(ttl, l.Fresh)
	}
	return max(ttl-max(l.Age, 0), ttl/10, min(ttl, time.Second))
}

// A Loader fetches the newest version of a resource.
//
// Held is the version that NotModified would renew, or nil. Load is called by one goroutine at a
// time per resource, and ends when ctx does.
type Loader interface {
	Load(ctx context.Context, key string, held *Document) (Loaded, error)
}

// LoaderFunc adapts a function to [Loader].
type LoaderFunc func(ctx context.Context, key string, held *Document) (Loaded, error)

// Load calls f.
func (f LoaderFunc) Load(ctx context.Context, key string, held *Document) (Loaded, error) {
	return f(ctx, key, held)
}

// AgeAt is how long ago the CMS sent or confirmed the document.
func (d *Document) AgeAt(now time.Time) time.Duration { return now.Sub(d.FetchedAt) + d.Age }

// An Answer is the result of a read: the prepared value, its document, and how it was obtained.
type Answer[V any] struct {
	Value    V
	Document *Document
	Status   Status
}

// Status is how an answer was obtained, in the terms of RFC 9211 (Cache-Status).
type Status struct {
	// Stale says that the document was past its freshness.
	Stale bool
	// Fwd is why the answer waited for a fetch: [FwdMiss] or [FwdStale]; empty on a hit.
	Fwd string
	// FwdStatus is the HTTP status of that fetch; 0 if unknown here.
	FwdStatus int
	// Stored says that the fetched document is now in Redis.
	Stored bool
	// Collapsed says that the fetch was made for another request, in this process or another.
	Collapsed bool
	// Detail is one of the Detail constants, or empty.
	Detail string
}

// The values of Fwd (RFC 9211, section 2.2).
const (
	FwdMiss  = "miss"
	FwdStale = "stale"
)

// The values of Detail.
const (
	DetailMemory         = "memory"                 // fresh, from this process
	DetailRedis          = "redis"                  // fresh, checked against Redis for this answer
	DetailRevalidate     = "stale-while-revalidate" // stale, and being refreshed
	DetailIfError        = "stale-if-error"         // stale, and the CMS fails
	DetailHeld           = "held"                   // stale, and the CMS's newer document is held back
	DetailSlow           = "stale-while-slow"       // stale, and the CMS did not answer within the time a visitor should wait
	DetailLeaseElsewhere = "lease-elsewhere"        // another process fetched it
	DetailRestored       = "restored"               // an operator has restored it from the history
	DetailRedisAway      = "redis-away"             // Redis is unreachable: this process is on its own
	DetailRedisRefused   = "redis-refused"          // Redis refused to store it
	DetailRedisLost      = "redis-lost"             // stale: Redis has lost its data, and the CMS fails
)

// ErrWait means that a reader gave up waiting; the fetch continues.
var ErrWait = errors.New("no answer within the time a reader waits")

// A RetryError is a failure with nothing to serve instead.
type RetryError struct {
	// After is the time until the next attempt; 0 if unknown.
	After time.Duration
	// Err is why the last attempt failed.
	Err error
}

// Error returns the reason and the time.
func (e *RetryError) Error() string {
	if e.After <= 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; next attempt in %v", e.Err, e.After.Round(time.Millisecond))
}

// Unwrap returns the reason.
func (e *RetryError) Unwrap() error { return e.Err }

// ErrHeld means that the loader gave a document that is held back: the copy held stays in service.
var ErrHeld = errors.New("the document is held back")

// A Sight is what a process sees of a resource. Each change is seen by every process that reads the
// resource, some more than once.
type Sight struct {
	Key string
	// Set and Seq are where Redis is in its history of the resource: see [lease.Generation]. After a hard
	// purge Seq is the number of the placeholder that replaces the document.
	Set string
	Seq int64
	// Document is what Redis holds, or, if Alone, what this process loaded and Redis does not hold.
	// Nil if there is neither.
	Document *Document
	Alone    bool
	// Own says that this process wrote it. It can be known later than the rest.
	Own bool
	// Purged says that the document was purged (hard), perhaps before this process began.
	Purged bool
}

func (s *Sight) etag() string {
	if s.Document == nil {
		return ""
	}
	return s.Document.ETag
}
