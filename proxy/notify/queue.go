package notify

import (
	"time"

	"vitrine/cache"
)

// The topics of which the latest notice counts.
const (
	topicContent = "content" // changed and purged: the value is the document's etag, and since when it has it
	topicHealth  = "health"  // failing and recovered
	topicHeld    = "held"    // the value stands for the reason
)

// The values of the topic health, and that of held while nothing is.
const (
	failing = "failing"
	well    = "well"
	nothing = "none"
)

// A notice is a cache.Notice with what is needed to tell it.
type notice struct {
	cache.Notice
	event, reason string
	at, due       time.Time
	etag          string          // of the document, where that is not the value
	document      *cache.Document // for what changed
	alone         bool            // Redis does not know it
	purged        bool            // a hard purge is part of it
	failures      int             // to tell it without a claim, in a row
}

// A queue has the notices of one resource and topic.
type queue struct {
	first, next *notice
	free        time.Time // when the next may be told
	// What was told last, as far as this process knows: a value, and the document, if it has it.
	value    string
	document *cache.Document
}

// A topic of a resource has a queue.
type topic struct{ resource, topic string }

// news reports whether a notice that Redis cannot be asked about is to be told: this process has
// not told it, as far as it knows.
func (q *queue) news() bool {
	n := q.first
	return n.purged || n.Value != q.value && (n.Value != well && n.Value != nothing || q.value != "")
}

// after is n in place of one that was not told: a purge in it counts.
func (n *notice) after(before *notice) *notice {
	if before != nil {
		n.purged, n.failures = n.purged || before.purged, before.failures
		n.Once = n.Once && !n.purged
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
