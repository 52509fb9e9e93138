package metrics

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vitrine/upstream"
)

// State is the state of the service at one moment.
type State struct {
	RedisUp, Tracking bool // Redis answers; its invalidations are received
	Refusing          bool // Redis refused the last write
	RoundTrip         time.Duration
	BreakerOpen       bool // the CMS is not asked for now
	Documents         [Other]Document
	Pending           map[string]int // notices, by target

	Connections, MaxConnections int
	CertificateEnds             time.Time // zero without TLS
}

// Document is the copy held of one resource.
type Document struct {
	Held       bool
	ETag       string
	Bytes      int
	FreshUntil time.Time
	Failing    bool   // the last known attempt to fetch it failed
	HeldBack   string // why the CMS's newer document is held back; empty if none is
	Suspicions []upstream.Suspicion
}

func (s *State) levels() (cms, redis Level) {
	failing := 0
	for _, d := range s.Documents {
		if d.Failing {
			failing++
		}
	}
	cms, redis = Good, Good
	switch {
	case s.BreakerOpen || failing == len(s.Documents):
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

// stateCollector collects the gauges that follow from the state, as of one look.
type stateCollector struct {
	version string
	look    func() State
}

func gaugeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	buildDesc       = gaugeDesc("build_info", "1, with the version of this program.", "version")
	redisDesc       = gaugeDesc("redis_up", "1 if Redis answers.")
	refusingDesc    = gaugeDesc("redis_refuses_writes", "1 if Redis refused the last write.")
	roundTripDesc   = gaugeDesc("redis_round_trip_seconds", "Average time for an answer of Redis; above half the purge bound every request waits for it.")
	trackingDesc    = gaugeDesc("tracking_up", "1 if purges are received from Redis.")
	breakerDesc     = gaugeDesc("breaker_open", "1 while the circuit breaker keeps the CMS from being asked.")
	connectionsDesc = gaugeDesc("connections", "Open connections at the public address.")
	limitDesc       = gaugeDesc("connections_limit", "Connections beyond which further ones are refused.")
	certificateDesc = gaugeDesc("certificate_not_after_seconds", "When the TLS certificate ends, as a Unix time; absent without TLS.")
	freshDesc       = gaugeDesc("entry_fresh_seconds",
		"Time for which the document held is still fresh; negative when stale, absent when none is held.", "resource")
	pendingDesc    = gaugeDesc("notifications_pending", "Changes and purges that a target has not been told of yet.", "target")
	heldDesc       = gaugeDesc("held_back", "1 while a document of the CMS is held back, since it lacks too much of the one held.", "resource")
	suspiciousDesc = gaugeDesc("suspicious", "1 while the document held is suspicious.", "resource", "kind")
	checksumDesc   = gaugeDesc("entry_checksum",
		"Checksum of the ETag of the document held: replicas with the same content have the same one.", "resource")
)

// Describe implements prometheus.Collector.
func (stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildDesc, redisDesc, refusingDesc, roundTripDesc, trackingDesc, breakerDesc, connectionsDesc, limitDesc, certificateDesc, freshDesc, checksumDesc, heldDesc,
		suspiciousDesc, pendingDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := c.look()
	gauge(buildDesc, 1, c.version)
	gauge(redisDesc, truth(s.RedisUp))
	gauge(refusingDesc, truth(s.Refusing))
	gauge(roundTripDesc, s.RoundTrip.Seconds())
	gauge(trackingDesc, truth(s.Tracking))
	gauge(breakerDesc, truth(s.BreakerOpen))
	gauge(connectionsDesc, float64(s.Connections))
	gauge(limitDesc, float64(s.MaxConnections))
	if !s.CertificateEnds.IsZero() {
		gauge(certificateDesc, float64(s.CertificateEnds.Unix()))
	}
	for target, n := range s.Pending {
		gauge(pendingDesc, float64(n), target)
	}
	for t, d := range s.Documents {
		gauge(heldDesc, truth(d.HeldBack != ""), Target(t).String())
		for _, kind := range upstream.SuspicionKinds() {
			is := func(s upstream.Suspicion) bool { return s.Kind == kind }
			gauge(suspiciousDesc, truth(slices.ContainsFunc(d.Suspicions, is)), Target(t).String(), string(kind))
		}
		if d.Held {
			gauge(freshDesc, time.Until(d.FreshUntil).Seconds(), Target(t).String())
			gauge(checksumDesc, float64(crc32.ChecksumIEEE([]byte(d.ETag))), Target(t).String())
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
