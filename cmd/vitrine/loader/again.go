package loader

import (
	"bytes"
	"time"

	"vitrine/cache"
)

// A CMS behind a CDN, or with replicas, publishes late: after a soft purge, as a webhook makes one,
// a fetch that brings the same document is made again after firstAgain, and firstAgain and
// secondAgain. The freshness that such a document got tells any replica which fetch is next: no TTL,
// which is in whole seconds as a rule, nor what an Age leaves of it, is the same.
const (
	firstAgain  = 2003 * time.Millisecond
	secondAgain = 8003 * time.Millisecond
)

// unsettled is how long a list is fresh that changed while it was read, as after a failed fetch.
const unsettled = time.Second

// isAgain reports whether a document was to be fetched again, as one that a purge did not change.
func isAgain(held *cache.Document, after time.Duration) bool {
	const rounding = 2 * time.Millisecond
	if held == nil {
		return false
	}
	off := held.FreshUntil.Sub(held.FetchedAt) - after
	return -rounding < off && off < rounding
}

// isPurged reports whether the present copy is that which was purged softly at a time: another
// replica may have replaced it since.
func isPurged(held *cache.Document, at int64, now time.Time) bool {
	purge := time.Unix(0, at)
	return at != 0 && held != nil && held.FetchedAt.Before(purge) && now.Sub(purge) < time.Minute
}

// freshness is how long what was loaded is fresh at most; 0 is the whole TTL.
func freshness(held *cache.Document, purged bool, body []byte, unsteady bool) time.Duration {
	same := held != nil && bytes.Equal(held.Body, body)
	switch {
	case unsteady:
		return unsettled
	case same && purged:
		return firstAgain
	case same && isAgain(held, firstAgain):
		return secondAgain
	}
	return 0
}
