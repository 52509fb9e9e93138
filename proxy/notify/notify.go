// Package notify tells targets (caches in front of vitrine, and people) what happens to documents.
//
// One change goes through it in this order:
//
//  1. every process sees the change ([Notifier.Seen]), and makes a notice of it for each target. A
//     target has at most one notice of a resource on its way, one a second, and the latest behind
//     it;
//  2. when the purge bound has passed, and no replica serves anything older, a target's goroutine
//     claims the notice in Redis, which grants it to one process at a time. Without Redis each
//     process sends what it has seen;
//  3. that process sends the request ([Sender]), and records that the target was told. After a
//     failure it tries again after growing pauses; if the process dies, its claim expires and
//     another process sends.
//
// A target is therefore told at least once, in order, and by one process at a time.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// Claims decide who tells a target, for all processes. A cache.Store implements them.
type Claims interface {
	Claim(ctx context.Context, n cache.Notice, lasting time.Duration) (cache.Claim, error)
	Told(ctx context.Context, c cache.Claim, pause time.Duration) (cache.Claim, error)
	ToldNot(ctx context.Context, c cache.Claim, failures int, pause time.Duration) error
}

// Options are the settings of a [Notifier].
type Options struct {
	// Targets are complete: see package config.
	Targets []source.Target
	// Bound is how long after a change it is told. Required.
	Bound time.Duration
	// Pause is the least time between two notices of a resource to one target; 0 is a second.
	Pause time.Duration
	// Count receives each outcome, told or failed. Required.
	Count func(target, outcome string)
	// Compare is what changed between two documents of a resource. Required.
	Compare func(r shape.Resource, before, after *cache.Document) shape.Changes
	// Logger receives a target's failures and that it can be told again. Required.
	Logger *slog.Logger
}

// A Notifier tells targets. [Notifier.Seen] and [Notifier.Held] do not block.
type Notifier struct{ targets []*target }

// New makes a notifier, which tells nothing before Run.
func New(o Options) *Notifier {
	o.Pause = cmp.Or(o.Pause, leastPause)
	n := &Notifier{}
	for _, t := range o.Targets {
		n.targets = append(n.targets, newTarget(t, &o))
	}
	return n
}

// Run tells what is seen until ctx ends. What is not told by then is told by another process, or by
// the next one.
func (n *Notifier) Run(ctx context.Context, claims Claims) {
	var all sync.WaitGroup
	for _, t := range n.targets {
		all.Go(func() { t.run(ctx, claims) })
	}
	all.Wait()
}

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

// failuresTold is from how many failed fetches in a row on the CMS counts as failing.
const failuresTold = 2

// Seen receives what this process sees of a resource. It is the event of that name of a
// cache.Store.
func (n *Notifier) Seen(s cache.Sight) {
	now := time.Now()
	place := cache.Notice{Resource: s.Key, Set: s.Set, Seq: s.Seq}
	var etag string
	if s.Document != nil {
		etag = s.Document.ETag
	}
	if s.Document != nil || s.Purged {
		content := &notice{Notice: place, at: now, event: source.EventPurged, etag: etag, purged: s.Purged}
		content.Topic = topicContent
		if s.Document != nil {
			content.event, content.document, content.alone, content.Once = source.EventChanged, s.Document, s.Alone, !s.Purged
			content.Value = fmt.Sprintf("%s@%d", etag, s.Document.ChangedAt.UnixMilli())
		}
		n.note(content)
	}
	health := &notice{Notice: place, at: now, etag: etag}
	health.Topic, health.Once = topicHealth, true
	// A failure comes after the document of the same number, and before the next one.
	switch {
	case s.Failures >= failuresTold:
		health.event, health.Value, health.Seq = source.EventFailing, failing, 2*s.Seq+1
		if s.Err != nil {
			health.reason = s.Err.Error()
		}
		n.note(health)
	case s.Failures == 0 && s.Document != nil:
		health.event, health.Value, health.Seq = source.EventRecovered, well, 2*s.Seq
		n.note(health)
	}
}

// Held receives that a document of the CMS is held back, since when and why; an empty reason means
// that none is any more.
func (n *Notifier) Held(resource string, since time.Time, reason string) {
	held := &notice{at: since, event: source.EventHeld, reason: reason}
	held.Notice = cache.Notice{Resource: resource, Topic: topicHeld, Value: nothing, Once: true}
	if reason == "" {
		held.event = ""
	} else {
		held.Value = digest(reason)
	}
	n.note(held)
}

func (n *Notifier) note(seen *notice) {
	for _, t := range n.targets {
		t.note(*seen)
	}
}

// Status is what is known of the targets, in the order of the configuration.
func (n *Notifier) Status() []Status {
	all := []Status{}
	for _, t := range n.targets {
		all = append(all, t.state())
	}
	return all
}

// Status is what this process knows of one target.
type Status struct {
	Name    string `json:"name"`
	Host    string `json:"host"`    // https://hooks.example.org
	Pending int    `json:"pending"` // notices that no process has told yet, as far as this one knows
	// Last is what was told last, by any process; nil if nothing is known.
	Last *Told `json:"last_told"`
	// Error is why this process could not tell the target when it last tried, at ErrorAt; empty if it
	// could.
	Error   string     `json:"error"`
	ErrorAt *time.Time `json:"error_at"`
}

// Told is an event that a target was told.
type Told struct {
	Event    string    `json:"event"`
	Resource string    `json:"resource"`
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
}
