package metrics

import (
	"context"
	"time"
)

const (
	// lookEvery is how often the state of things is looked at.
	lookEvery = time.Second
	// Step is how far apart the points of the past are.
	Step = 10 * time.Second
	// Window is how far back they go.
	Window = time.Hour
	// deafLooks is how many looks in a row have to find that purges are not heard before it is told.
	deafLooks = 5
	// maxEvents bounds the events kept.
	maxEvents = 200
	// maxVersions bounds the versions of a resource kept.
	maxVersions = 5
)

// A Level is how well something does.
type Level uint8

// The levels of the CMS and of Redis.
const (
	Unknown Level = iota // not looked at
	Good
	Degraded // the CMS: some resources cannot be fetched; Redis: it answers, but purges are not heard
	Down     // the CMS: no resource can be fetched; Redis: it does not answer
)

// String is how it is written in JSON.
func (l Level) String() string { return [...]string{"unknown", "good", "degraded", "down"}[l] }

// MarshalText writes the level as its word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the word; one that it does not know is Unknown.
func (l *Level) UnmarshalText(text []byte) error {
	*l = Unknown
	for known := Good; known <= Down; known++ {
		if known.String() == string(text) {
			*l = known
		}
	}
	return nil
}

// The kinds of events.
const (
	KindPurge      = "purge"
	KindSoftPurge  = "soft-purge"
	KindRefusal    = "refusal"
	KindIncoherent = "incoherent"
	KindCMS        = "cms"   // its level changed; Detail is the new one
	KindRedis      = "redis" // its level changed; Detail is the new one
)

// An Event is something an operator may want to have seen.
type Event struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Resource string    `json:"resource,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Count    int       `json:"count"` // how often in a row; At is the last time
}

// A Refusal is a document that the CMS sent and that was not in shape.
type Refusal struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"` // the JSON path, what was wanted and what was found
	Count  int       `json:"count"`  // since the start
}

// A Version is content that was held at some time.
type Version struct {
	ETag  string    `json:"etag"`
	Bytes int       `json:"bytes"`
	Since time.Time `json:"since"` // when it was first seen here
}

// versions are those of one resource.
type versions struct {
	count int
	last  []Version // newest first
}

// past is one point of it: the sums so far, and the worst levels since the point before.
type past struct {
	at         time.Time
	sums       totals
	cms, redis Level
}

// levels are those of the CMS and of Redis.
func (s *State) levels() (cms, redis Level) {
	failing := 0
	for _, d := range s.Documents {
		if d.Failing {
			failing++
		}
	}
	switch {
	case s.BreakerOpen || failing == len(s.Documents):
		cms = Down
	case failing > 0:
		cms = Degraded
	default:
		cms = Good
	}
	switch {
	case !s.RedisUp:
		redis = Down
	case !s.Tracking:
		redis = Degraded
	default:
		redis = Good
	}
	return cms, redis
}

// Run remembers until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	m.remember(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			m.remember(now)
		}
	}
}

// remember looks once, notes what changed, and keeps a point of the past when one is due.
func (m *Meter) remember(now time.Time) {
	state := m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	// A process that is held up does not hear Redis for that moment, which on a busy machine is nothing to tell.
	if m.deaf++; state.Tracking {
		m.deaf = 0
	}
	state.Tracking = m.deaf < deafLooks
	cms, redis := state.levels()
	if m.before != nil {
		cmsBefore, redisBefore := m.before.levels()
		if cms != cmsBefore {
			m.note(Event{At: now, Kind: KindCMS, Detail: cms.String()})
		}
		if redis != redisBefore {
			m.note(Event{At: now, Kind: KindRedis, Detail: redis.String()})
		}
	}
	m.before = &state
	for t, d := range state.Documents {
		v := &m.versions[t]
		if d.Held && (len(v.last) == 0 || v.last[0].ETag != d.ETag) {
			v.count++
			v.last = append([]Version{{ETag: d.ETag, Bytes: d.Bytes, Since: now}}, v.last[:min(len(v.last), maxVersions-1)]...)
		}
	}
	m.worst.cms, m.worst.redis = max(m.worst.cms, cms), max(m.worst.redis, redis)
	if n := len(m.past); n > 0 && now.Sub(m.past[n-1].at) < Step {
		return
	}
	m.past = append(m.past, past{at: now, sums: m.count().totals(), cms: m.worst.cms, redis: m.worst.redis})
	m.worst = past{}
	for len(m.past) > 1 && now.Sub(m.past[0].at) > Window+Step {
		m.past = m.past[1:]
	}
}

// note keeps an event; what repeats the last one of its kind and resource within the hour is counted with it.
// The caller holds mu.
func (m *Meter) note(e Event) {
	e.Count = 1
	for i := len(m.events) - 1; i >= 0; i-- {
		last := &m.events[i]
		if last.Kind != e.Kind || last.Resource != e.Resource {
			continue
		}
		if e.Kind == KindRefusal && last.Detail == e.Detail && e.At.Sub(last.At) < Window {
			e.Count += last.Count
			m.events = append(m.events[:i], m.events[i+1:]...)
		}
		break
	}
	m.events = append(m.events, e)
	if len(m.events) > maxEvents {
		m.events = m.events[len(m.events)-maxEvents:]
	}
}
