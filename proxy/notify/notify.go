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
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
)

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
