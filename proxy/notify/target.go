package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

const (
	// claimTime is how long a claim lasts: longer than sendTime and the reply of Redis before it.
	claimTime = 30 * time.Second
	// releaseTime bounds giving a claim back.
	releaseTime = 2 * time.Second
	// leastPause is the default of Options.Pause.
	leastPause = time.Second
	// firstPause and mostPause bound the pause after a failure, which doubles.
	firstPause = time.Second
	mostPause  = time.Minute
)

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

// A target is told what happens, by one goroutine.
type target struct {
	source.Target
	key    string
	o      *Options
	sender *Sender
	wake   chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	queues map[topic]*queue
	status Status
}

func newTarget(t source.Target, o *Options) *target {
	return &target{
		Target: t, key: Key(t), o: o, sender: NewSender(t), wake: make(chan struct{}, 1), queues: map[topic]*queue{},
		status: Status{Name: t.Name, Host: Host(t)},
	}
}

// Key names a target in Redis. At another address it is another one, which was told nothing yet:
// not even by a process that still has the configuration of before.
func Key(t source.Target) string { return t.Name + "@" + digest(t.URL, t.Path, t.Zone, t.Service)[:8] }

// wants reports whether the target is told of an event.
func (t *target) wants(event string) bool { return slices.Contains(t.Events, event) }

// note queues a notice behind the one that is on its way.
func (t *target) note(n notice) {
	n.Target = t.key
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
	last := cmp.Or(q.next, q.first)
	switch {
	case last != nil && n.Once && n.Value == last.Value && n.alone == last.alone: // on its way
		return
	case last == nil:
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
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-time.After(time.Until(at)):
		}
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
	if !n.alone {
		claim, _ = claims.Claim(ctx, cache.Claim{Notice: n.Notice}, claimTime) // otherwise it has no outcome
	}
	switch claim.Outcome {
	case cache.ClaimGranted:
	case cache.ClaimTold:
		t.done(q, claim.ToldValue, &Told{Event: n.event, Resource: n.Resource, Seq: claim.ToldSeq, At: claim.ToldAt})
		return
	case cache.ClaimHeld, cache.ClaimPaused:
		t.postpone(q, min(claim.Left, t.o.Pause)+rand.N(t.o.Bound))
		return
	default:
		if !q.news() {
			t.done(q, q.value, nil)
			return
		}
	}
	event := n.event
	if n.purged && !t.wants(event) {
		event = source.EventPurged
	}
	var told *Told
	pause := time.Duration(0)
	if t.wants(event) && !t.has(n, claim) {
		began := time.Now()
		err := t.sender.Send(ctx, t.eventOf(n, q, event, claim))
		t.mu.Lock()
		q.free = began.Add(t.o.Pause)
		t.mu.Unlock()
		if err != nil {
			t.failed(ctx, claims, q, claim, err)
			return
		}
		t.o.Count(t.Name, "told")
		told, pause = &Told{Event: event, Resource: n.Resource, Seq: n.Seq, At: time.Now()}, t.o.Pause
	}
	if claim.Outcome == cache.ClaimGranted {
		claim.Outcome = cache.ClaimTold
		if _, err := claims.Claim(ctx, claim, pause); err != nil { // another process tells it once more
			t.o.Logger.DebugContext(ctx, "cannot record that a target was told", "target", t.Name, "error", err)
		}
	}
	t.done(q, cmp.Or(n.Value, q.value), told)
}

// has reports whether a cache can hold nothing older than a document: it was told of the purge
// before it, after which nothing else was served.
func (t *target) has(n *notice, claim cache.Claim) bool {
	return t.Cache && n.Topic == topicContent && !n.purged && claim.ToldEmpty && claim.ToldSeq+1 == n.Seq
}

// eventOf is the event of a notice. Its ID is that of the change, whichever process tells it.
func (t *target) eventOf(n *notice, q *queue, name string, claim cache.Claim) Event {
	e := Event{Event: name, Resource: n.Resource, Seq: n.Seq, ETag: n.etag, At: n.at.UTC().Truncate(time.Millisecond), Reason: n.reason}
	change := strconv.FormatInt(n.Seq, 10)
	switch {
	case n.Topic == topicHealth:
		e.Seq /= 2
	case n.Topic == topicHeld:
		change = strconv.FormatInt(n.at.UnixMilli(), 10) + n.reason
	case name == source.EventChanged:
		change = n.Value
		// Only a body that has room for it is worth the comparison.
		if told := claim.ToldValue; strings.Contains(t.Body, "{json}") && n.document != nil && q.document != nil && (told == "" || told == q.value) {
			e.Changes = changed(t.o.Compare(shape.Resource(n.Resource), q.document, n.document))
		}
	}
	e.ID = digest(n.Resource, name, n.Set, change)
	return e
}

// done ends the first notice of a queue, after which a value was told.
func (t *target) done(q *queue, value string, told *Told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := q.first; {
	case n.Value == value:
		q.document = n.document
	case value != q.value:
		q.document = nil
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

// failed has the notice told again after a pause, by any process; or at once by another one, if
// this one ends.
func (t *target) failed(ctx context.Context, claims Claims, q *queue, claim cache.Claim, err error) {
	failures, pause := claim.Failures, time.Duration(0)
	if ctx.Err() == nil {
		q.first.failures++
		failures = max(q.first.failures, failures+1)
		pause = min(mostPause, firstPause<<min(failures-1, 10))
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
		t.postpone(q, pause)
	}
	if claim.Outcome == cache.ClaimGranted {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		claim.Outcome, claim.Failures = cache.ClaimFailed, failures
		if _, err := claims.Claim(ctx, claim, pause); err != nil { // it expires
			t.o.Logger.DebugContext(ctx, "cannot record that a target was not told", "target", t.Name, "error", err)
		}
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
