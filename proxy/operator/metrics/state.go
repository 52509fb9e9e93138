package metrics

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vitrine/proxy/verdict"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// collect collects the gauges of a snapshot and its verdict.
func collect(s verdict.Snapshot, ch chan<- prometheus.Metric) {
	none := prometheus.Labels(nil)
	gauge := func(name, help string, value float64, labels prometheus.Labels) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, nil, labels), prometheus.GaugeValue, value)
	}
	v := verdict.Of(s)
	gauge("visitors_affected", "1 while visitors get errors.", truth(v.Affected), none)
	if v.CopiesUntil != nil {
		gauge("copies_end_seconds", "When the first cached copy ends if the CMS fails until then, as a Unix time; absent without a copy.",
			float64(v.CopiesUntil.Unix()), none)
	}
	gauge("redis_up", "1 if Redis answers.", truth(s.Redis.Up), none)
	gauge("redis_refuses_writes", "1 if Redis refused the last write.", truth(s.Redis.Refusing != ""), none)
	gauge("redis_round_trip_seconds", "Average time for an answer of Redis; above half the purge bound every request waits for it.",
		s.Redis.RoundTrip/1000, none)
	gauge("polls_up", "1 if Redis answers polls: purges are received.", truth(s.Redis.Answering), none)
	count := func(name, help string, value int64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, nil, none), prometheus.CounterValue, float64(value))
	}
	count("polls_unanswered_total", "Polls of Redis without an answer.", s.Redis.Unanswered)
	count("poll_waits_total", "Answers that waited for a poll of Redis.", s.Redis.Waits)
	gauge("breaker_open", "1 while the circuit breaker keeps the CMS from being asked.", truth(s.CMS.BreakerOpen), none)
	gauge("connections", "Open connections at the public address.", float64(s.Connections), none)
	gauge("connections_limit", "Connections beyond which further ones are refused.", float64(s.MaxConnections), none)
	if !s.CertificateEnds.IsZero() {
		gauge("certificate_not_after_seconds", "When the TLS certificate ends, as a Unix time; absent without TLS.",
			float64(s.CertificateEnds.Unix()), none)
	}
	for _, e := range s.Notify {
		gauge("notifications_pending", "Changes and purges that a target has not been notified of yet.", float64(e.Pending), prometheus.Labels{"target": e.Name})
	}
	for _, r := range shape.Resources() {
		d, resource := s.Documents[r], prometheus.Labels{"resource": string(r)}
		gauge("held_back", "1 while a document of the CMS is held back, since it lacks too much of the one held.", truth(d.HeldBack != nil), resource)
		for _, kind := range guard.Warnings() {
			is := func(s guard.Finding) bool { return s.Kind == kind }
			gauge("suspicious", "1 while the cached copy has content warnings.", truth(slices.ContainsFunc(d.Suspicions, is)),
				prometheus.Labels{"resource": string(r), "kind": string(kind)})
		}
		gauge("restored", "1 while an earlier version is served that an operator has restored.", truth(d.Held != nil && d.Held.Restored != nil), resource)
		if h := d.Held; h != nil {
			gauge("entry_fresh_seconds", "Time for which the cached copy is still fresh; negative when stale, absent when there is none.",
				time.Until(h.FreshUntil).Seconds(), resource)
			gauge("entry_checksum", "Checksum of the ETag of the cached copy: replicas with the same content have the same one.",
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
