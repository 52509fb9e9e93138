package metrics

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// A Level is the health of the CMS or of Redis.
type Level string

// The levels of the CMS and of Redis.
const (
	Unknown  Level = "unknown" // not looked at
	Good     Level = "good"
	Degraded Level = "degraded" // the CMS: some resources cannot be fetched; Redis: it answers, but purges are not received
	Down     Level = "down"     // the CMS: no resource can be fetched; Redis: it does not answer
)

// worse is the worse of two levels.
func worse(a, b Level) Level {
	all := []Level{Unknown, Good, Degraded, Down}
	return all[max(0, slices.Index(all, a), slices.Index(all, b))]
}

// State is the state of the service at one moment.
type State struct {
	RedisUp, Tracking bool // Redis answers; its invalidations are received
	Refusing          bool // Redis refused the last write
	RoundTrip         time.Duration
	BreakerOpen       bool // the CMS is not asked for now
	BreakerOpened     time.Time
	Documents         map[shape.Resource]Document
	Pending           map[string]int // notices, by target

	Connections, MaxConnections int
	CertificateEnds             time.Time // zero without TLS
}

// Document is what is known of the document of one resource.
type Document struct {
	Held       *Held                `json:"held"`      // nil for nothing
	Failing    bool                 `json:"failing"`   // the last attempt to fetch, by any replica, failed
	Fetching   bool                 `json:"fetching"`  // now, by this process or by the one that it waits for
	HeldBack   *HeldBack            `json:"held_back"` // by any replica; nil for nothing
	Suspicions []upstream.Suspicion `json:"suspicions"`
}

// Held is the document that would be served.
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
	Pinned        *Pin      `json:"pinned"`
}

// Pin is that an operator has restored the document from the history: nothing is fetched meanwhile.
type Pin struct {
	Until time.Time `json:"until"`
	By    string    `json:"by"`
}

// HeldBack is a document of the CMS that is not stored, since it lacks too much of the one held.
type HeldBack struct {
	Since   time.Time  `json:"since"`
	Until   *time.Time `json:"until"` // when the next one is taken all the same
	Reason  string     `json:"reason"`
	Before  int        `json:"items_before"` // of the lists that the reason is about
	Now     int        `json:"items_now"`
	Command string     `json:"command"` // accepts it
}

// Ends is until when a document is held back.
func (h *HeldBack) Ends() string {
	if h.Until == nil {
		return "until accepted"
	}
	return "until " + h.Until.UTC().Format(time.RFC3339) + " unless accepted"
}

func (s *State) levels() (cms, redis Level) {
	failing, elsewhere := 0, false
	for _, d := range s.Documents {
		switch h := d.Held; {
		case d.Failing:
			failing++
		case h != nil && h.Pinned == nil && h.FetchedAt.After(s.BreakerOpened):
			elsewhere = true // another replica has fetched since the breaker opened
		}
	}
	cms, redis = Good, Good
	switch {
	case s.BreakerOpen && !elsewhere || failing == shape.Count:
		cms = Down
	case failing > 0:
		cms = Degraded
	}
	switch {
	case !s.RedisUp:
		redis = Down
	case !s.Tracking || s.Refusing:
		redis = Degraded
	}
	return cms, redis
}

// collect collects the gauges that follow from the state.
func (s *State) collect(ch chan<- prometheus.Metric) {
	none := prometheus.Labels(nil)
	gauge := func(name, help string, value float64, labels prometheus.Labels) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, nil, labels), prometheus.GaugeValue, value)
	}
	gauge("redis_up", "1 if Redis answers.", truth(s.RedisUp), none)
	gauge("redis_refuses_writes", "1 if Redis refused the last write.", truth(s.Refusing), none)
	gauge("redis_round_trip_seconds", "Average time for an answer of Redis; above half the purge bound every request waits for it.",
		s.RoundTrip.Seconds(), none)
	gauge("tracking_up", "1 if purges are received from Redis.", truth(s.Tracking), none)
	gauge("breaker_open", "1 while the circuit breaker keeps the CMS from being asked.", truth(s.BreakerOpen), none)
	gauge("connections", "Open connections at the public address.", float64(s.Connections), none)
	gauge("connections_limit", "Connections beyond which further ones are refused.", float64(s.MaxConnections), none)
	if !s.CertificateEnds.IsZero() {
		gauge("certificate_not_after_seconds", "When the TLS certificate ends, as a Unix time; absent without TLS.",
			float64(s.CertificateEnds.Unix()), none)
	}
	for target, n := range s.Pending {
		gauge("notifications_pending", "Changes and purges that a target has not been told of yet.", float64(n), prometheus.Labels{"target": target})
	}
	for _, r := range shape.Resources() {
		d, resource := s.Documents[r], prometheus.Labels{"resource": string(r)}
		gauge("held_back", "1 while a document of the CMS is held back, since it lacks too much of the one held.", truth(d.HeldBack != nil), resource)
		for _, kind := range upstream.SuspicionKinds() {
			is := func(s upstream.Suspicion) bool { return s.Kind == kind }
			gauge("suspicious", "1 while the document held is suspicious.", truth(slices.ContainsFunc(d.Suspicions, is)),
				prometheus.Labels{"resource": string(r), "kind": string(kind)})
		}
		if h := d.Held; h != nil {
			gauge("entry_fresh_seconds", "Time for which the document held is still fresh; negative when stale, absent when none is held.",
				time.Until(h.FreshUntil).Seconds(), resource)
			gauge("entry_checksum", "Checksum of the ETag of the document held: replicas with the same content have the same one.",
				float64(crc32.ChecksumIEEE([]byte(h.ETag))), resource)
		}
	}
}

// truth is a condition as the value of a gauge.
func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
