package notify

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
)

const (
	// claimTime is how long a claim lasts: longer than sendTime and the calls to Redis around it.
	claimTime = 30 * time.Second
	// redisTime bounds such a call.
	redisTime = 2 * time.Second
	// leastPause is the default of Options.Pause.
	leastPause = time.Second
	// firstPause and mostPause bound the pause after all attempts have failed, which doubles.
	firstPause = time.Second
	mostPause  = time.Minute
)

type target struct {
	source.Target
	o      *Options
	sender *Sender
	wake   chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	queues map[topic]*queue
	status Status
}

func newTarget(t source.Target, o *Options) *target {
	return &target{
		Target: t, o: o, sender: NewSender(t), wake: make(chan struct{}, 1), queues: map[topic]*queue{},
		status: Status{Name: t.Name, Host: Host(t)},
	}
}

// wants reports whether the target is told of an event.
func (t *target) wants(event string) bool { return slices.Contains(t.Events, event) }

// note queues a notice behind the one that is on its way.
func (t *target) note(n notice) {
	n.Target = t.Name
	switch n.Topic {
	case topicContent:
		if !t.wants(n.event) && (!n.purged || !t.wants(source.EventPurged)) {
			return
		}
		n.due = n.at.Add(t.o.Bound)
	case topicHealth:
		if !t.wants(source.EventFailing) && !t.wants(source.EventRecovered) {
			return
		}
	case topicHeld:
		if !t.wants(source.EventHeld) {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := topic{n.Resource, n.Topic}
	q := t.queues[key]
	if q == nil {
		q = &queue{}
		t.queues[key] = q
	}
	switch {
	case n.alone && n.Value == q.value && q.first == nil:
		return
	case q.first == nil:
		n.due = later(n.due, q.free)
		q.first = &n
	default:
		q.next = n.after(q.next)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run tells what is due until ctx ends.
func (t *target) run(ctx context.Context, claims Claims) {
	defer t.sender.Close()
	for {
		due, at := t.due(time.Now())
		for _, q := range due {
			if t.tell(ctx, claims, q); ctx.Err() != nil {
				return
			}
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-t.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// due are the queues whose first notice is due now, or when the next one is.
func (t *target) due(now time.Time) (due []*queue, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = now.Add(time.Hour)
	for _, q := range t.queues {
		if q.first == nil {
			continue
		}
		if q.next != nil && !q.next.due.After(now) { // the state before is not told any more
			due := q.first.due
			q.first, q.next = q.next.after(q.first), nil
			q.first.due = due
		}
		if q.first.due.After(now) {
			if q.first.due.Before(at) {
				at = q.first.due
			}
			continue
		}
		due = append(due, q)
	}
	return due, at
}

// tell tells the first notice of a queue, unless it was told or another process has claimed it.
func (t *target) tell(ctx context.Context, claims Claims, q *queue) {
	n := q.first // changed by this goroutine alone
	var claim cache.Claim
	claimed := false
	if !n.alone {
		within, cancel := context.WithTimeout(ctx, redisTime)
		var err error
		claim, err = claims.Claim(within, n.Notice, claimTime)
		cancel()
		claimed = err == nil
	}
	switch {
	case ctx.Err() != nil:
		return
	case claimed && claim.Outcome == cache.ClaimTold:
		t.done(q, claim.ToldValue, &Told{Event: n.event, Resource: n.Resource, Seq: claim.ToldSeq, At: claim.ToldAt})
		return
	case claimed && claim.Outcome != cache.ClaimGranted:
		t.postpone(q, min(claim.Left, t.o.Pause)+rand.N(t.o.Bound))
		return
	case !claimed && !q.news():
		t.done(q, q.value, nil)
		return
	}
	event := n.event
	if n.purged && !t.wants(event) {
		event = source.EventPurged
	}
	wanted := t.wants(event) && (!claimed || !t.has(n, claim))
	if wanted {
		began := time.Now()
		err := t.sender.Send(ctx, t.eventOf(n, q, event, claim))
		if ctx.Err() != nil && err != nil {
			t.release(ctx, claims, claim, claimed)
			return
		}
		t.mu.Lock()
		q.free = began.Add(t.o.Pause)
		t.mu.Unlock()
		if err != nil {
			t.failed(ctx, claims, q, claim, claimed, err)
			return
		}
		t.o.Count(t.Name, "told")
	}
	value := n.Value
	if value == "" {
		value = q.value
	}
	var told *Told
	pause := time.Duration(0)
	if wanted {
		told, pause = &Told{Event: event, Resource: n.Resource, Seq: n.Seq, At: time.Now()}, t.o.Pause
	}
	if claimed {
		within, cancel := context.WithTimeout(ctx, redisTime)
		_, err := claims.Told(within, claim, pause)
		cancel()
		if err != nil { // another process tells it once more
			t.o.Logger.DebugContext(ctx, "cannot record that a target was told", "target", t.Name, "error", err)
		}
	}
	t.done(q, value, told)
}

// has reports whether a cache can hold nothing older than a document: it was told of the purge before
// it, after which nothing else was served.
func (t *target) has(n *notice, claim cache.Claim) bool {
	return t.Cache && n.Topic == topicContent && !n.purged && claim.ToldEmpty && claim.ToldSeq+1 == n.Seq
}

// eventOf is the event of a notice.
func (t *target) eventOf(n *notice, q *queue, name string, claim cache.Claim) Event {
	e := Event{Event: name, Resource: n.Resource, Seq: n.Seq, ETag: n.etag, At: n.at.UTC().Truncate(time.Millisecond), Reason: n.reason}
	switch n.Topic {
	case topicContent:
		e.ETag = n.Value
		if told := claim.ToldValue; n.body != nil && q.body != nil && (told == "" || told == q.value) {
			e.Changes = changes(n.Resource, q.body, n.body)
		}
	case topicHealth:
		e.Seq /= 2
	}
	e.identify(n.Set)
	return e
}

// done ends the first notice of a queue, after which a value was told.
func (t *target) done(q *queue, value string, told *Told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := q.first; {
	case n.Value == value:
		q.body = n.body
	case value != q.value:
		q.body = nil
	}
	if q.value = value; told != nil && !told.At.IsZero() { // otherwise the state is the usual one
		if q.first.Topic == topicHealth {
			told.Seq /= 2
		}
		if told.Event != "" && (t.status.Last == nil || told.At.After(t.status.Last.At)) {
			t.status.Last = told
		}
		if t.status.Error != "" && told.At.After(*t.status.ErrorAt) {
			t.status.Error, t.status.ErrorAt = "", nil
			t.o.Logger.Info("a target can be told again", "target", t.Name)
		}
	}
	if q.first, q.next = q.next, nil; q.first != nil {
		q.first.due = later(q.first.due, q.free)
	}
}

// postpone asks about the first notice of a queue again later.
func (t *target) postpone(q *queue, by time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q.first.due = time.Now().Add(by)
}

// failed has the notice told again after a pause, by any process.
func (t *target) failed(ctx context.Context, claims Claims, q *queue, claim cache.Claim, claimed bool, err error) {
	q.first.failures++
	failures := max(q.first.failures, claim.Failures+1)
	pause := min(mostPause, firstPause<<min(failures-1, 10))
	pause = pause/2 + rand.N(pause/2)
	if e, ok := errors.AsType[*sendError](err); ok {
		pause = max(pause, e.after)
	}
	t.o.Count(t.Name, "failed")
	now := time.Now()
	t.mu.Lock()
	level := slog.LevelDebug
	if t.status.Error == "" {
		level = slog.LevelWarn
	}
	t.status.Error, t.status.ErrorAt = err.Error(), &now
	t.mu.Unlock()
	t.o.Logger.Log(ctx, level, "cannot tell a target, trying again", "target", t.Name, "resource", q.first.Resource, "event", q.first.event, "error", err, "after", pause)
	if claimed {
		within, cancel := context.WithTimeout(ctx, redisTime)
		defer cancel()
		if err := claims.ToldNot(within, claim, failures, pause); err != nil {
			t.o.Logger.DebugContext(ctx, "cannot record that a target was not told", "target", t.Name, "error", err)
		}
	}
	t.postpone(q, pause)
}

// release gives a claim back when this process ends, so that another one need not wait for its end.
func (t *target) release(ctx context.Context, claims Claims, claim cache.Claim, claimed bool) {
	if claimed {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTime)
		defer cancel()
		_ = claims.ToldNot(within, claim, claim.Failures, 0) // otherwise it expires
	}
}

// state is the present status.
func (t *target) state() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	for _, q := range t.queues {
		if q.first != nil {
			s.Pending++
		}
	}
	return s
}
