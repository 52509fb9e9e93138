// Package verdict judges the state of a process: what is wrong, since when, who is affected, what
// to do. [Of] is the one function that does; the page, the command status, /api/status, /readyz and
// the metrics print what it returns.
package verdict

import (
	"time"

	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// Snapshot is the state of one process at one moment.
type Snapshot struct {
	Now             time.Time
	Draining        bool // the process is stopping
	CMS             CMS
	Redis           Redis
	Documents       map[shape.Resource]Document
	Notify          []Endpoint
	Connections     int
	MaxConnections  int
	CertificateEnds time.Time // zero without TLS
	ReloadFailed    bool      // the last reload, so that the configuration before it is in use

	Total, Recent Responses // since the start, within the last minute
	// Since is when each finding was first seen, by its keys; see [Remember].
	Since map[string]time.Time
}

// Responses are those at the public address.
type Responses struct{ All, Errors uint64 } // errors are those with a 5xx

// CMS is the upstream.
type CMS struct {
	URL         string `json:"url"`
	Source      string `json:"source"` // the fingerprint that documents in Redis carry
	Level       Level  `json:"level"`
	BreakerOpen bool   `json:"breaker_open"`

	Breaker upstream.Breaker `json:"breaker"`
}

// Redis is the store.
type Redis struct {
	Address   string `json:"address"`
	Prefix    string `json:"prefix"`
	Embedded  bool   `json:"embedded"`
	Up        bool   `json:"up"`
	Answering bool   `json:"answering"` // polls are answered: purges are received
	Refusing  string `json:"refusing"`  // why Redis refused the last write; empty if it did not

	RoundTrip   float64 `json:"round_trip_ms"`
	PurgeBound  float64 `json:"purge_bound_ms"`
	BoundNeeded float64 `json:"purge_bound_needed_ms"` // 0 if the bound is enough for the round trip
	Level       Level   `json:"level"`
	Unanswered  int64   `json:"polls_unanswered"` // since the start
	Waits       int64   `json:"poll_waits"`       // answers that waited for a poll
}

// Document is what is known of the document of one resource.
type Document struct {
	Route string  `json:"route"` // the public path
	Key   string  `json:"key"`   // in Redis
	TTL   float64 `json:"ttl_seconds"`

	Held       *Held          `json:"held"`      // the cached copy; nil for none
	Failing    bool           `json:"failing"`   // the last attempt to fetch, by any replica, failed
	Fetching   bool           `json:"fetching"`  // now, by this process or by the one that it waits for
	HeldBack   *guard.Hold    `json:"held_back"` // by any replica; nil for nothing
	Foreign    bool           `json:"foreign"`   // the fleet has another source: this process fetches nothing
	Suspicions guard.Findings `json:"suspicions"`
	Refresh    string         `json:"refresh"`    // the setting: with always, a document is not idle
	LastFetch  *Fetch         `json:"last_fetch"` // by this process
	Unanswered bool           `json:"-"`          // a request for it got an error just now
	Failures   int            `json:"-"`          // attempts in a row that failed, of any replica,
	Cause      string         `json:"-"`          // and why the last one did, in short
	Set        string         `json:"-"`          // the data set in Redis,
	Seq        int64          `json:"-"`          // and the number of the document there

	Numbers // the meter's
}

// Numbers are the counts of one resource since the start.
type Numbers struct {
	LastRefusal *Refusal `json:"last_refusal"` // nil when there was none
	Fetches     uint64   `json:"fetches"`
	FetchErrors uint64   `json:"fetch_errors"`
	Purges      uint64   `json:"purges"`
}

// A Refusal is a document of the CMS that was not in shape.
type Refusal struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"` // the JSON path, what was wanted and what was found
	Count  int       `json:"count"`  // since the start
}

// Held is the cached copy, which would be served.
type Held struct {
	ETag          string    `json:"etag"`
	Bytes         int       `json:"bytes"`
	Items         int       `json:"items"`
	FetchedAt     time.Time `json:"fetched_at"`
	ChangedAt     time.Time `json:"changed_at"`
	FreshUntil    time.Time `json:"fresh_until"`
	ServableUntil time.Time `json:"servable_until"` // even if the CMS fails
	Age           float64   `json:"age_seconds"`
	Left          float64   `json:"left_seconds"` // negative when stale
	Stale         bool      `json:"stale"`
	Coherent      bool      `json:"coherent"` // known to be what Redis holds
	Restored      *Restored `json:"restored"`
}

// Restored is that an operator has restored the document from the history: nothing is fetched until then.
type Restored struct {
	Until time.Time `json:"until"`
	By    string    `json:"by"`
}

// Fetch is the result of one fetch.
type Fetch struct {
	At           time.Time `json:"at"`
	Milliseconds float64   `json:"milliseconds"`
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"` // of the CMS's answer
	Error        string    `json:"error,omitempty"`
	Cause        string    `json:"cause,omitempty"` // of the error, in short
	Rejected     bool      `json:"rejected,omitempty"`
	Repairs      int       `json:"repairs"`

	Suspicions guard.Findings `json:"suspicions,omitempty"`
}

// Endpoint is what a process knows of an endpoint of notify.
type Endpoint struct {
	Name    string     `json:"name"`
	Host    string     `json:"host"`      // https://hooks.example.org
	Pending int        `json:"pending"`   // notices that no replica has sent yet, as far as this one knows
	Last    *Told      `json:"last_told"` // by any replica; nil if nothing is known
	Error   string     `json:"error"`     // of this process's last attempt; empty after a success
	ErrorAt *time.Time `json:"error_at"`
}

// Told is an event of which an endpoint was notified.
type Told struct {
	Event    string    `json:"event"`
	Resource string    `json:"resource"`
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
}

// The states of a document.
const (
	StateFresh   = "fresh"
	StateIdle    = "idle"  // past its freshness, and not requested since: that would have fetched it
	StateStale   = "stale" // past its freshness otherwise
	StateMissing = "missing"
)

// State is the state of the cached copy. While the CMS is down no request refreshes it.
func (d *Document) State(cms Level) string {
	switch h := d.Held; {
	case h == nil:
		return StateMissing
	case !h.Stale:
		return StateFresh
	case cms == Down, d.Failing, d.Fetching, d.Refresh == "always", d.HeldBack != nil, h.SoftlyPurged():
		return StateStale
	}
	return StateIdle
}

// SoftlyPurged reports whether an operator, and not time, has ended the copy's freshness.
func (h *Held) SoftlyPurged() bool { return h.FreshUntil.Before(h.FetchedAt) }

// FetchedElsewhere reports whether another replica has fetched the document since this one failed.
func (d *Document) FetchedElsewhere() bool {
	h, f := d.Held, d.LastFetch
	return h != nil && h.Restored == nil && !d.Failing && f != nil && f.Error != "" && h.FetchedAt.After(f.At)
}

// A Level is the health of the CMS or of Redis.
type Level string

// The levels of the CMS and of Redis.
const (
	Unknown  Level = "unknown" // not sampled
	Good     Level = "good"
	Degraded Level = "degraded" // the CMS: some resources cannot be fetched; Redis: purges are not received, or writes are refused
	Down     Level = "down"     // the CMS: no resource can be fetched; Redis: it does not answer
)
