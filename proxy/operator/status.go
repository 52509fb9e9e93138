package operator

import (
	"time"

	"vitrine/proxy/notify"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// Status is the body of /api/status and the content of the page; docs/status.md describes it field
// by field. Pointers are nil where nothing is known.
type Status struct {
	Version   string                      `json:"version"`
	Started   time.Time                   `json:"started"`
	Now       time.Time                   `json:"now"`
	Draining  bool                        `json:"draining"`
	Public    string                      `json:"public"`   // the public address as a URL
	Settings  string                      `json:"settings"` // the fingerprint of the configuration, secrets apart
	Upstream  Upstream                    `json:"upstream"`
	Redis     Redis                       `json:"redis"`
	Resources map[shape.Resource]Resource `json:"resources"`
	Traffic   metrics.Traffic             `json:"traffic"`
	Events    []metrics.Event             `json:"events"` // of the last hour, newest first
	Replicas  Replicas                    `json:"replicas"`
	Notify    []notify.Status             `json:"notify"` // by target
	Commands  []Command                   `json:"commands"`
	History   metrics.History             `json:"history"`
}

// Upstream is the CMS.
type Upstream struct {
	URL         string        `json:"url"`
	Source      string        `json:"source"` // the fingerprint that documents in Redis carry
	Level       metrics.Level `json:"level"`
	BreakerOpen bool          `json:"breaker_open"`

	Breaker upstream.Breaker `json:"breaker"`
}

// Redis is the store.
type Redis struct {
	Address   string `json:"address"`
	Prefix    string `json:"prefix"`
	Embedded  bool   `json:"embedded"`
	Up        bool   `json:"up"`
	Listening bool   `json:"listening"` // purges are received
	Refusing  string `json:"refusing"`  // why Redis refused the last write; empty if it did not

	RoundTrip   float64       `json:"round_trip_ms"`
	PurgeBound  float64       `json:"purge_bound_ms"`
	BoundNeeded float64       `json:"purge_bound_needed_ms"` // 0 if the bound is enough for the round trip
	Level       metrics.Level `json:"level"`
}

// Resource is the state of one resource.
type Resource struct {
	State   string  `json:"state"` // follows from the others
	Route   string  `json:"route"`
	Key     string  `json:"key"` // in Redis
	TTL     float64 `json:"ttl_seconds"`
	Refresh string  `json:"refresh"`         // the setting: without requests, a document is not idle
	Error   string  `json:"error,omitempty"` // why nothing can be served

	LastFetch *Fetch `json:"last_fetch"` // by this process

	metrics.Document
	metrics.Numbers
}

// The states of a resource.
const (
	StateFresh   = "fresh"
	StateIdle    = "idle"  // past its freshness, and not requested since: that would have fetched it
	StateStale   = "stale" // past its freshness otherwise
	StateMissing = "missing"
)

func (r *Resource) state() string {
	switch h := r.Held; {
	case h == nil:
		return StateMissing
	case !h.Stale:
		return StateFresh
	case r.Failing, r.Fetching, r.Refresh == "always", r.HeldBack != nil, softlyPurged(h):
		return StateStale
	}
	return StateIdle
}

// FetchedElsewhere reports whether another replica has fetched the document since this one failed.
func (r *Resource) FetchedElsewhere() bool {
	h, f := r.Held, r.LastFetch
	return h != nil && h.Pinned == nil && !r.Failing && f != nil && f.Error != "" && h.FetchedAt.After(f.At)
}

// softlyPurged reports whether an operator, and not time, has ended the copy's freshness.
func softlyPurged(h *metrics.Held) bool { return h.FreshUntil.Before(h.FetchedAt) }

// Fetch is the result of one fetch.
type Fetch struct {
	At           time.Time `json:"at"`
	Milliseconds float64   `json:"milliseconds"`
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"` // of the CMS's answer
	Error        string    `json:"error,omitempty"`
	Repairs      int       `json:"repairs"`

	Suspicions []upstream.Suspicion `json:"suspicions,omitempty"`
}

// Milliseconds is a duration as the status tells it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Replicas are the processes that share the Redis and the prefix.
type Replicas struct {
	Known bool      `json:"known"` // false while Redis is unreachable, or refuses to keep the list
	Agree bool      `json:"agree"` // those that hold a resource hold the same content of the same source
	List  []Replica `json:"list"`
}

// Replica is one of them as it last reported itself.
type Replica struct {
	Name  string  `json:"name"`
	Self  bool    `json:"self"`
	Age   float64 `json:"age_seconds"` // of its report
	Agree bool    `json:"agree"`       // with this process
	Report
}

// Report is the part of a replica that it announces itself.
type Report struct {
	Version string                    `json:"version"`
	Started time.Time                 `json:"started"`
	Source  string                    `json:"source"`
	ETags   map[shape.Resource]string `json:"etags"` // of the documents it holds
}

// Command is a shell command, and its effect.
type Command struct {
	Does    string `json:"does"`
	Command string `json:"command"`
}

// complete adds what the process counts, and what follows from the rest.
func (st *Status) complete(o metrics.Overview) {
	if st.Resources == nil {
		st.Resources = map[shape.Resource]Resource{}
	}
	st.Upstream.Level, st.Redis.Level = o.CMS, o.Redis
	st.Traffic, st.Events, st.History = o.Traffic, o.Events, o.History
	for _, r := range shape.Resources() {
		resource := st.Resources[r]
		resource.Numbers = o.Resources[r]
		resource.Versions = append([]metrics.Version{}, resource.Versions...) // a list in JSON is never null
		resource.Suspicions = append([]upstream.Suspicion{}, resource.Suspicions...)
		resource.State = resource.state()
		st.Resources[r] = resource
	}
	st.Replicas.compare(st.Upstream.Source)
}

// compare determines which replicas agree with this one.
func (rs *Replicas) compare(source string) {
	rs.Agree = rs.Known
	var own map[shape.Resource]string
	for _, r := range rs.List {
		if r.Self {
			own = r.ETags
		}
	}
	for i := range rs.List {
		r := &rs.List[i]
		r.Agree = r.Source == source
		for resource, etag := range r.ETags {
			r.Agree = r.Agree && (own[resource] == "" || own[resource] == etag)
		}
		rs.Agree = rs.Agree && r.Agree
	}
}
