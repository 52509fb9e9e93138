package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/proxy/verdict"
)

const (
	firstPause = time.Second // after a failure; it doubles
	mostPause  = time.Minute
)

// A notice is a cache.Notice with the event to send.
type notice struct {
	cache.Notice
	event Event         // complete but for its ID
	due   time.Duration // by clock
	alone bool          // Redis does not know it
}

// A queue has the notices of a resource and topic: the one to send, and the latest behind it, which
// takes its place once that is due.
type queue struct {
	pending []notice          // two at most
	free    time.Duration     // when the next may be sent
	state   cache.NotifyState // the last notice, as far as this process knows
}

// due is when to send the first notice.
func (q *queue) due(now time.Duration) time.Duration {
	if len(q.pending) == 2 && q.pending[1].due <= now {
		q.pending[1].Purge = max(q.pending[1].Purge, q.pending[0].Purge)
		q.pending = q.pending[1:]
	}
	at := time.Duration(math.MaxInt64)
	for _, n := range q.pending {
		at = min(at, n.due)
	}
	return max(at, q.free)
}

// clock is the time of this process.
func clock() time.Duration { return time.Since(started) }

var started = time.Now()

// An endpoint is notified by one goroutine.
type endpoint struct {
	source.Target
	key    string
	o      *Options
	sender *Sender
	wake   chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	queues map[string]*queue
	status verdict.Endpoint
}

// Key names an endpoint in Redis. At another address it is another one, which was notified of
// nothing yet: not even by a process that still has the configuration of before.
func Key(t source.Target) string {
	return t.Name + "@" + digest(t.URL.Reveal(), t.Path.Reveal(), t.Zone, t.Service)[:8]
}

// digest is a short name for texts.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, " ")))
	return hex.EncodeToString(sum[:12])
}

// wants reports whether the endpoint gets one of these events.
func (e *endpoint) wants(events ...string) bool {
	return slices.ContainsFunc(events, func(event string) bool { return slices.Contains(e.Events, event) })
}

// note queues a notice, which waits for another replica unless one before it already did.
func (e *endpoint) note(n notice, wait time.Duration) {
	n.Endpoint, n.event.Resource = e.key, n.Resource
	e.mu.Lock()
	defer e.mu.Unlock()
	key := n.Resource + " " + string(n.Topic)
	if e.queues[key] == nil {
		e.queues[key] = &queue{}
	}
	q := e.queues[key]
	if len(q.pending) == 0 || q.pending[0].due > clock() {
		n.due += wait
	}
	if len(q.pending) == 2 {
		n.Purge = max(n.Purge, q.pending[1].Purge)
	}
	q.pending = append(q.pending[:min(1, len(q.pending))], n)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run notifies of what is due until ctx ends.
func (e *endpoint) run(ctx context.Context, record Record) {
	for ctx.Err() == nil {
		var first *queue
		var next notice
		now, at := clock(), time.Duration(math.MaxInt64)
		e.mu.Lock()
		for _, q := range e.queues {
			if due := q.due(now); due < at {
				first, next, at = q, q.pending[0], due
			}
		}
		e.mu.Unlock()
		if at > now {
			select {
			case <-ctx.Done():
			case <-e.wake:
			case <-time.After(at - now):
			}
			continue
		}
		notified, pause := e.notify(ctx, record, first, next)
		e.mu.Lock()
		if first.free = clock() + pause; notified {
			first.pending = first.pending[1:]
		}
		e.mu.Unlock()
	}
}

// notify sends a notice of q, unless that was done or another replica does it. It returns whether the
// endpoint is notified, and how long q is to wait before the next attempt.
func (e *endpoint) notify(ctx context.Context, record Record, q *queue, n notice) (notified bool, pause time.Duration) {
	well := n.Value == cache.OutageWell
	if well && q.state.Value == cache.OutageFailing {
		n.Purge = q.state.Seq // Redis may have been away, or have lost it since: it says well then
	}
	send := func(s cache.NotifyState) (bool, time.Duration) {
		notified, pause = e.send(ctx, &n, s)
		return notified, pause
	}
	state, err := q.state, error(nil)
	if !n.alone {
		state, err = record.Notify(ctx, n.Notice, send)
	}
	switch {
	case n.alone || err != nil: // it has no record then
		if n.Purge == 0 && (n.Value == q.state.Value || well && q.state.Value == "") {
			return true, 0
		}
		send(q.state)
		q.state.Failures++
	case state.Outcome == cache.NotifyKnown:
		q.state = state
		e.seen(&n, state.At)
		return true, 0
	case state.Outcome == cache.NotifyBusy:
		return false, min(state.Left, e.o.Pause) + rand.N(e.o.Bound)
	}
	if notified {
		q.state = cache.NotifyState{Seq: n.Seq, Value: n.Value}
	}
	return notified, pause
}

// send sends the event of a notice to an endpoint that was notified of s last. It returns whether the
// endpoint is notified, and how long nobody notifies it then.
func (e *endpoint) send(ctx context.Context, n *notice, s cache.NotifyState) (sent bool, pause time.Duration) {
	name, id := n.event.Event, strconv.FormatInt(n.Seq, 10)
	if name == source.EventChanged {
		if n.Purge > s.Seq && !e.wants(name) {
			n.event.Event = source.EventPurged
		} else {
			id = n.Value // whichever replica sends it
		}
	}
	// After a purge a cache can hold nothing older than the next document.
	has := e.Cache && name == source.EventChanged && s.Value == "" && s.Seq > 0 && s.Seq+1 == n.Seq && s.Seq >= n.Purge
	if has || !e.wants(n.event.Event) {
		return true, 0
	}
	n.event.ID = digest(n.Resource, n.event.Event, n.Set, id)
	err := e.sender.Send(ctx, n.event)
	switch {
	case err == nil:
		e.o.Count(e.Name, "told")
		e.seen(n, time.Now())
		return true, e.o.Pause
	case ctx.Err() != nil: // another replica notifies at once
		return false, 0
	}
	return false, e.failed(ctx, n, s.Failures+1, err)
}

// seen has the status say when the endpoint was notified of what.
func (e *endpoint) seen(n *notice, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.IsZero() || !e.wants(n.event.Event) { // it is recorded all the same
		return
	}
	if e.status.Last == nil || at.After(e.status.Last.At) {
		e.status.Last = &verdict.Told{Event: n.event.Event, Resource: n.Resource, Seq: n.event.Seq, At: at}
	}
	if e.status.Error != "" && at.After(*e.status.ErrorAt) {
		e.status.Error, e.status.ErrorAt = "", nil
		e.o.Logger.Info("an endpoint can be notified again", "endpoint", e.Name)
	}
}

// failed returns how long after so many failures in a row a notice is sent again, by any replica.
func (e *endpoint) failed(ctx context.Context, n *notice, failures int, err error) (pause time.Duration) {
	pause = min(mostPause, firstPause<<min(failures-1, 10))
	pause = pause/2 + rand.N(pause/2)
	if failed, ok := errors.AsType[*sendError](err); ok {
		pause = max(pause, failed.after)
	}
	now := time.Now()
	e.o.Count(e.Name, "failed")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status.Error == "" {
		e.o.Logger.WarnContext(ctx, "cannot notify an endpoint, trying again", "endpoint", e.Name, "resource", n.Resource, "event", n.event.Event, "error", err, "after", pause)
	}
	e.status.Error, e.status.ErrorAt = err.Error(), &now
	return pause
}

// state is the present status.
func (e *endpoint) state() verdict.Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	for _, q := range e.queues {
		if len(q.pending) > 0 {
			s.Pending++
		}
	}
	return s
}
