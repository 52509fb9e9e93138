// Package metrics counts, for Prometheus and for the last hour on the operator's page.
//
// For each response the proxy calls [Answers.Observe], which adds to counters. Fetches, purges and
// refusals are rare, and arrive as events of the cache. Once a second [Meter.Run] samples the state
// of the resources, the CMS and Redis; every ten seconds it keeps the sums, from which
// [Meter.Overview] draws the last hour. Meter.Gather gives Prometheus all of it.
//
// Every label has a fixed set of values: no client can create a series.
package metrics

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"vitrine/proxy/verdict"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// A Meter counts. Make it with [New]; [Meter.Run] keeps the last hour. It is a prometheus.Gatherer.
type Meter struct {
	*prometheus.Registry
	*requests
	look    func() verdict.Snapshot
	history history

	counters             map[string]*prometheus.CounterVec
	fetchTimes           *prometheus.HistogramVec
	reloadFailed         atomic.Bool
	reloaded, reloadedAt prometheus.Gauge
}

// The values of the label outcome of a fetch; docs/status.md has their meaning. The CMS succeeded
// in the first ones.
var (
	fetchSuccesses = []string{"stored", "renewed", "lost", "soft", "alone", "held"}
	fetchFailures  = []string{"unreachable", "timeout", "answer", "open", "refused", "failed"}
)

// counters count events; docs/status.md has the meaning of their labels. Every series of a resource,
// and of the values, is there from the start.
var counters = []struct {
	name, help string
	labels     []string
	values     []string // of the last label
}{
	{"upstream_fetches_total", "Fetches from the CMS by outcome.", []string{"resource", "outcome"}, slices.Concat(fetchSuccesses, fetchFailures)},
	{"purges_total", "Purges received.", []string{"resource", "kind"}, []string{"hard", "soft"}},
	{"refused_documents_total", "Documents of the CMS refused for their shape.", []string{"resource"}, nil},
	{"damaged_documents_total", "Documents in Redis that could not be used and were fetched again.", []string{"resource"}, nil},
	{"suspicions_total", "Suspicious documents fetched from the CMS.", []string{"resource", "kind"}, warnings()},
	{"hook_deliveries_total", "Calls of the webhook by outcome.", []string{"outcome"}, []string{"accepted", "unmatched", "refused", "unreadable", "failed"}},
	{"notifications_total", "Targets told of changes and purges by this process, by outcome.", []string{"target", "outcome"}, nil},
}

func warnings() (all []string) {
	for _, kind := range guard.Warnings() {
		all = append(all, string(kind))
	}
	return all
}

// New makes the meter of a program of this version. Look returns the present state; it is called
// once a second and for every scrape, and must not block.
func New(version string, look func() verdict.Snapshot) *Meter {
	m := &Meter{look: look, Registry: prometheus.NewRegistry(), requests: newRequests(), counters: map[string]*prometheus.CounterVec{}}
	factory := promauto.With(m.Registry)
	for _, c := range counters {
		vec := factory.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: c.name, Help: c.help}, c.labels)
		m.counters[c.name] = vec
		for _, r := range shape.Resources() {
			if len(c.labels) == 1 && c.labels[0] == "resource" {
				vec.WithLabelValues(string(r))
			}
			for _, v := range c.values {
				vec.WithLabelValues([]string{string(r), v}[2-len(c.labels):]...)
			}
		}
	}
	m.fetchTimes = factory.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "upstream_fetch_duration_seconds", Help: "Duration of fetches from the CMS, retries included.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"resource"})
	gauge := func(name, help string, labels prometheus.Labels) prometheus.Gauge {
		return factory.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	}
	gauge("build_info", "1, with the version of this program.", prometheus.Labels{"version": version}).Set(1)
	m.reloaded = gauge("reload_success", "1 if the last reload of the configuration succeeded, or there was none.", nil)
	m.reloadedAt = gauge("reload_timestamp_seconds", "When the configuration was last reloaded, successfully or not, or the start.", nil)
	m.history.numbers = map[shape.Resource]*verdict.Numbers{}
	for _, r := range shape.Resources() {
		m.history.numbers[r] = &verdict.Numbers{}
		m.fetchTimes.WithLabelValues(string(r))
	}
	state := prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) { collect(m.Snapshot(), ch) })
	// Package collectors, where these moved, links database/sql.
	m.MustRegister(m.requests, state, prometheus.NewGoCollector(), //nolint:staticcheck // see above
		prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{})) //nolint:staticcheck // see above
	m.Reloaded(true)
	return m
}

// count counts an event.
func (m *Meter) count(name string, labels ...string) {
	m.counters[name].WithLabelValues(labels...).Inc()
}

// Fetched counts a fetch. Its arguments are those of the cache's event of that name; other keys are
// not counted.
func (m *Meter) Fetched(key, outcome string, took time.Duration, err error) {
	n := m.history.numbers[shape.Resource(key)]
	if n == nil {
		return
	}
	switch code := upstream.Code(err); {
	case errors.Is(err, shape.ErrRefused):
		outcome = "refused"
	case err != nil && slices.Contains(fetchFailures, code):
		outcome = code
	case err != nil || !slices.Contains(fetchSuccesses, outcome):
		outcome = "failed"
	}
	m.count("upstream_fetches_total", key, outcome)
	m.fetchTimes.WithLabelValues(key).Observe(took.Seconds())
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	n.Fetches++
	if slices.Contains(fetchFailures, outcome) {
		n.FetchErrors++
	}
	if outcome != "refused" {
		return
	}
	m.count("refused_documents_total", key)
	refusal := &verdict.Refusal{At: time.Now(), Reason: err.Error(), Count: 1}
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		refusal.Reason = refused.Error()
	}
	if n.LastRefusal != nil {
		refusal.Count += n.LastRefusal.Count
	}
	n.LastRefusal = refusal
	m.history.note(Event{At: refusal.At, Kind: KindRefusal, Resource: key, Detail: refusal.Reason})
}

// Note notes an event of a resource, and counts a purge; other keys are not noted.
func (m *Meter) Note(kind, key, detail string) {
	n := m.history.numbers[shape.Resource(key)]
	if n == nil {
		return
	}
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	if label := map[string]string{KindPurge: "hard", KindSoftPurge: "soft"}[kind]; label != "" {
		m.count("purges_total", key, label)
		n.Purges++
	}
	m.history.note(Event{At: time.Now(), Kind: kind, Resource: key, Detail: detail})
}

// Damaged counts a document in Redis that could not be used.
func (m *Meter) Damaged(key string) { m.count("damaged_documents_total", key) }

// Suspected counts a suspicious document of the CMS that is served.
func (m *Meter) Suspected(r shape.Resource, kind guard.Kind) {
	m.count("suspicions_total", string(r), string(kind))
}

// Reloaded notes an attempt to reload the configuration.
func (m *Meter) Reloaded(ok bool) {
	m.reloaded.Set(truth(ok))
	m.reloadFailed.Store(!ok)
	m.reloadedAt.SetToCurrentTime()
}

// Delivered counts a delivery of the webhook, by outcome: accepted, unmatched, refused,
// unreadable or failed.
func (m *Meter) Delivered(outcome string) { m.count("hook_deliveries_total", outcome) }

// Notified counts that an endpoint was notified, or could not be.
func (m *Meter) Notified(target, outcome string) { m.count("notifications_total", target, outcome) }

// Run keeps the last hour until ctx ends. Once a second, judged receives the state, and the verdict on it.
func (m *Meter) Run(ctx context.Context, judged func(verdict.Snapshot, verdict.Verdict)) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		judged(m.remember(time.Now()))
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (m *Meter) remember(now time.Time) (verdict.Snapshot, verdict.Verdict) {
	s := m.snapshot()
	return s, m.history.remember(now, s, m.totals)
}

// snapshot is the present state without what is remembered.
func (m *Meter) snapshot() verdict.Snapshot {
	s := m.look()
	s.ReloadFailed = m.reloadFailed.Load()
	return s
}

// Snapshot returns the present.
func (m *Meter) Snapshot() verdict.Snapshot {
	s, _ := m.Overview()
	return s
}

// Overview returns the present and the last hour.
func (m *Meter) Overview() (verdict.Snapshot, Past) {
	s, sums, now := m.snapshot(), m.totals(), time.Now()
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	m.history.complete(now, &s, sums)
	return s, m.history.past(now, sums)
}
