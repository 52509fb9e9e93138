package metrics

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// Options are what a [Meter] is made of.
type Options struct {
	// Look tells how things are now. It is called once a second and for every scrape, and must not wait for anything.
	// Required.
	Look func() State
}

// State is how things are at one moment.
type State struct {
	RedisUp, Tracking bool // Redis answers; its invalidations are heard
	BreakerOpen       bool // the CMS is not asked for now
	Documents         [Other]Document
}

// Document is what is held of one resource.
type Document struct {
	Held       bool
	ETag       string
	Bytes      int
	FreshUntil time.Time
	Failing    bool // the last attempt to fetch it that is known of failed
}

// A Meter counts. Make it with [New]; [Meter.Run] keeps its memory of the last hour.
type Meter struct {
	look    func() State
	stripes [stripes]stripe

	fetches    [Other][fetchOutcomes]atomic.Uint64
	fetchTimes [Other]durations
	purges     [Other][len(purgeKinds)]atomic.Uint64
	refused    [Other]atomic.Uint64
	incoherent [Other]atomic.Uint64
	suspicions suspicions
	deliveries [len(deliveryOutcomes)]atomic.Uint64

	mu       sync.Mutex // guards what follows
	past     []past     // the last hour, oldest first
	worst    past       // the worst states since the last of it
	events   []Event    // oldest first
	before   *State     // nil before the first look
	deaf     int        // looks in a row that found that purges are not heard
	refusals [Other]*Refusal
	versions [Other]versions
}

// New makes a meter.
func New(o Options) (*Meter, error) {
	if o.Look == nil {
		return nil, errors.New("metrics: Look is required")
	}
	return &Meter{look: o.Look}, nil
}

// A FetchOutcome is what became of a fetch, the label outcome.
type FetchOutcome uint8

// The values of the label outcome. The first five are successes of the CMS.
const (
	FetchStored      FetchOutcome = iota // a new document, now in Redis
	FetchRenewed                         // the document held is still right
	FetchLost                            // a purge came meanwhile: fetched again
	FetchSoft                            // a soft purge came meanwhile: fetched again
	FetchAlone                           // a document, kept by this process alone while Redis is away
	FetchUnreachable                     // the CMS cannot be reached
	FetchTimeout                         // it did not answer in time
	FetchAnswer                          // it answered, but not with this document
	FetchOpen                            // it was not asked, since it failed again and again
	FetchRefused                         // it answered with a document that is not in shape
	FetchFailed                          // anything else
	fetchOutcomes
)

// String is the value of the label.
func (o FetchOutcome) String() string {
	return [fetchOutcomes]string{"stored", "renewed", "lost", "soft", "alone", "unreachable", "timeout", "answer", "open", "refused", "failed"}[o]
}

func outcomeOf(word string, err error) FetchOutcome {
	if err == nil {
		for o := range FetchUnreachable {
			if o.String() == word {
				return o
			}
		}
		return FetchFailed
	}
	if errors.Is(err, shape.ErrRefused) {
		return FetchRefused
	}
	code := upstream.Code(err)
	for o := FetchUnreachable; o < FetchRefused; o++ {
		if o.String() == code {
			return o
		}
	}
	return FetchFailed
}

// Fetched counts a fetch. Its arguments are those of the cache's event of that name.
func (m *Meter) Fetched(key, outcome string, took time.Duration, err error) {
	t := TargetOf(shape.Resource(key))
	if t == Other {
		return
	}
	o := outcomeOf(outcome, err)
	m.fetches[t][o].Add(1)
	m.fetchTimes[t].add(took)
	if o != FetchRefused {
		return
	}
	m.refused[t].Add(1)
	reason := err.Error()
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		reason = refused.Error()
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 1
	if last := m.refusals[t]; last != nil {
		count += last.Count
	}
	m.refusals[t] = &Refusal{At: now, Reason: reason, Count: count}
	m.note(Event{At: now, Kind: KindRefusal, Resource: t.String(), Detail: reason})
}

// purgeKinds are the values of the label kind.
var purgeKinds = [...]string{"hard", "soft"}

// Purged counts a purge that was heard. Its arguments are those of the cache's event of that name.
func (m *Meter) Purged(key, kind string) {
	t := TargetOf(shape.Resource(key))
	if t == Other {
		return
	}
	event := Event{At: time.Now(), Kind: KindPurge, Resource: key}
	i := 0
	if kind == purgeKinds[1] {
		i, event.Kind = 1, KindSoftPurge
	}
	m.purges[t][i].Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(event)
}

// Incoherent counts a sample that found memory to differ from Redis.
func (m *Meter) Incoherent(key string) {
	t := TargetOf(shape.Resource(key))
	if t == Other {
		return
	}
	m.incoherent[t].Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(Event{At: time.Now(), Kind: KindIncoherent, Resource: key})
}

// fetchBounds are the upper bounds of the buckets of fetches' durations.
var fetchBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// durations are a histogram with fetchBounds.
type durations struct {
	buckets [len(fetchBounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

func (d *durations) add(took time.Duration) {
	i := 0
	for i < len(fetchBounds) && took > fetchBounds[i] {
		i++
	}
	d.buckets[i].Add(1)
	d.nanos.Add(uint64(max(0, took)))
}
