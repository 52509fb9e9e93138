// Package notify sends events of documents to endpoints: caches in front of vitrine, and people.
//
// Every replica sees a change ([Notifier.Seen]) and queues it for each endpoint. The one that stored
// the document waits for the purge bound, after which no replica serves anything older; after a purge,
// each waits a random moment more; the others wait for two seconds, since that replica may have died.
// Then a replica marks in the lock record ([Record]) that it notifies the endpoint, unless that is
// done or under way, sends the request ([Sender]), and records the notice. After a failure any replica
// tries again; the mark of one that died lapses. Without Redis each notifies of what it has seen.
//
// An endpoint is therefore notified at least once, in order, and by one replica at a time.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/proxy/verdict"
	"vitrine/upstream/guard"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// Record is the lock record of each resource, in which replicas agree. A cache.Store implements it.
type Record interface {
	Notify(ctx context.Context, n cache.Notice, send func(cache.NotifyState) (sent bool, pause time.Duration)) (cache.NotifyState, error)
}

// Options are the settings of a [Notifier]. All but Pause are required.
type Options struct {
	Targets []source.Target // complete: see package config
	Bound   time.Duration   // how long after a change the endpoints are notified
	// Pause is the least time between two requests about a resource to one endpoint, and half of the
	// time after which a replica sends what another should have sent; 0 is a second, which is the most.
	Pause  time.Duration
	Count  func(endpoint, outcome string) // receives each outcome
	Logger *slog.Logger
}

// A Notifier notifies endpoints. [Notifier.Seen] and [Notifier.Held] do not block.
type Notifier struct {
	o         Options
	endpoints []*endpoint
	judged    map[shape.Resource]cache.Notice // by the last verdict
}

// New makes a notifier, which sends nothing before Run.
func New(o Options) *Notifier {
	o.Pause = cmp.Or(o.Pause, time.Second)
	n := &Notifier{o: o, judged: map[shape.Resource]cache.Notice{}}
	for _, t := range o.Targets {
		n.endpoints = append(n.endpoints, &endpoint{
			Target: t, key: Key(t), o: &n.o, sender: NewSender(t), wake: make(chan struct{}, 1),
			queues: map[string]*queue{}, status: verdict.Endpoint{Name: t.Name, Host: t.URL.String()},
		})
	}
	return n
}

// Run notifies until ctx ends. What is left by then is for another replica, or the next process.
func (n *Notifier) Run(ctx context.Context, record Record) {
	var all sync.WaitGroup
	for _, e := range n.endpoints {
		all.Go(func() { e.run(ctx, record) })
	}
	all.Wait()
}

// Seen receives what this process sees of a resource. It is the event of that name of a
// cache.Store.
func (n *Notifier) Seen(s cache.Sight) {
	if s.Document == nil && !s.Purged {
		return
	}
	seen := notice{
		Notice: cache.Notice{Resource: s.Key, Topic: cache.TopicContent, Set: s.Set, Seq: s.Seq},
		event:  Event{Event: source.EventPurged, At: now(), Seq: s.Seq}, due: clock() + n.o.Bound,
	}
	wait := rand.N(n.o.Bound/10 + 1)
	if s.Purged {
		seen.Purge = s.Seq
	}
	if d := s.Document; d != nil {
		seen.Purge = max(seen.Purge-1, 0) // its number is that of the placeholder
		seen.event.Event, seen.event.ETag, seen.alone = source.EventChanged, d.ETag, s.Alone
		seen.Value = fmt.Sprintf("%s@%d", d.ETag, d.ChangedAt.UnixMilli())
		if wait = 0; !s.Own && !s.Alone && !s.Purged {
			wait = 2*n.o.Pause + rand.N(n.o.Bound)
		}
	}
	n.note(seen, wait, source.EventChanged, source.EventPurged)
}

// Judged receives the state, once a second, with the outages that the verdict finds in it.
func (n *Notifier) Judged(s verdict.Snapshot, v verdict.Verdict) {
	for r, d := range s.Documents {
		reason, failing := v.Outages[r]
		// A failure comes after the document of the same number, and before the next one.
		seen := notice{
			Notice: cache.Notice{Resource: string(r), Topic: cache.TopicOutage, Set: d.Set, Seq: 2 * d.Seq, Value: cache.OutageWell},
			event:  Event{Event: source.EventRecovered, At: now(), Seq: d.Seq}, due: clock(),
		}
		switch {
		case failing:
			seen.Seq, seen.Value, seen.event.Event, seen.event.Reason = seen.Seq+1, cache.OutageFailing, source.EventFailing, sanitize.Text(reason)
		case d.Failing || d.Held == nil: // which it is, is not known yet
			continue
		default:
			seen.event.ETag = d.Held.ETag
		}
		if n.judged[r] != seen.Notice {
			n.judged[r] = seen.Notice
			n.note(seen, rand.N(n.o.Bound), source.EventFailing, source.EventRecovered)
		}
	}
}

// now is the time of an event.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Held receives that a document is held back, since a time that names the hold; or, with an end, that
// it no longer is, and why.
func (n *Notifier) Held(resource string, h *guard.Hold, end guard.End) {
	held := notice{
		Notice: cache.Notice{Resource: resource, Topic: cache.TopicHold, Seq: 2 * h.Since.UnixMilli()},
		event:  Event{Event: source.EventHeld, At: h.Since.UTC(), Reason: sanitize.Text(h.Reason), Command: h.Command, Findings: h.Findings},
		due:    clock(),
	}
	if h.Until != nil {
		until := h.Until.UTC().Truncate(time.Second)
		held.event.Until = &until
	}
	if end != "" {
		held.Seq, held.event = held.Seq+1, Event{Event: source.EventReleased, At: now(), Reason: string(end), Findings: h.Findings}
	}
	held.Value = strconv.FormatInt(held.Seq, 10)
	n.note(held, rand.N(n.o.Bound), source.EventHeld, source.EventReleased)
}

// note queues a notice for the endpoints with an event of its topic, any of which is recorded. This
// replica sends it at the earliest so long after it is due.
func (n *Notifier) note(seen notice, wait time.Duration, events ...string) {
	for _, e := range n.endpoints {
		if e.wants(events...) {
			e.note(seen, wait)
		}
	}
}

// Status is what is known of the endpoints, in the order of the configuration.
func (n *Notifier) Status() []verdict.Endpoint {
	all := []verdict.Endpoint{}
	for _, e := range n.endpoints {
		all = append(all, e.state())
	}
	return all
}
