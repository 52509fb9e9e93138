package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics; docs/status.md says what each label's values mean.
var (
	requestsDesc   = describe("requests_total", "Answers, by resource, HTTP status and how the document was come by.", "resource", "code", "cache")
	durationDesc   = describe("request_duration_seconds", "How long the making of an answer took.", "resource")
	fetchesDesc    = describe("upstream_fetches_total", "Fetches from the CMS, by what became of them.", "resource", "outcome")
	fetchTimeDesc  = describe("upstream_fetch_duration_seconds", "How long fetches from the CMS took, retries included.", "resource")
	collapsedDesc  = describe("collapsed_total", "Answers that waited for a fetch made for another request.", "resource")
	purgesDesc     = describe("purges_total", "Purges heard.", "resource", "kind")
	refusedDesc    = describe("refused_documents_total", "Documents of the CMS that were refused as not in shape.", "resource")
	freshDesc      = describe("entry_fresh_seconds", "How much longer the document held is fresh; negative when it is stale; absent when none is held.", "resource")
	redisDesc      = describe("redis_up", "Whether Redis answers.")
	trackingDesc   = describe("tracking_up", "Whether purges are being heard.")
	breakerDesc    = describe("breaker_open", "Whether the CMS is left in peace after failures.")
	suspicionsDesc = describe("suspicions_total", "Documents of the CMS that are served although they look wrong.", "resource", "kind")
	deliveriesDesc = describe("hook_deliveries_total", "Deliveries of the webhook, by what became of them.", "outcome")
	incoherentDesc = describe("incoherent_samples_total", "Background samples that found memory to differ from Redis.", "resource")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("vitrine_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		requestsDesc, durationDesc, fetchesDesc, fetchTimeDesc, collapsedDesc, purgesDesc,
		refusedDesc, freshDesc, redisDesc, trackingDesc, breakerDesc, incoherentDesc, suspicionsDesc, deliveriesDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Meter) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for i, outcome := range deliveryOutcomes {
		count(deliveriesDesc, m.deliveries[i].Load(), outcome)
	}
	c := m.count()
	for t := range Other + 1 {
		for i, code := range codes {
			for cache, n := range c.answers[t][i] {
				// A series that may be divided by is there from the start.
				if n > 0 || code == 200 && t != Other && Cache(cache) != None {
					count(requestsDesc, n, t.String(), codeLabel(code), Cache(cache).String())
				}
			}
		}
		ch <- histogram(durationDesc, requestBounds[:], c.buckets[t][:], c.nanos[t], t.String())
	}
	now, state := time.Now(), m.look()
	for t := range Other {
		name := t.String()
		count(collapsedDesc, c.collapsed[t], name)
		for o := range fetchOutcomes {
			count(fetchesDesc, m.fetches[t][o].Load(), name, o.String())
		}
		var buckets [len(fetchBounds) + 1]uint64
		for i := range buckets {
			buckets[i] = m.fetchTimes[t].buckets[i].Load()
		}
		ch <- histogram(fetchTimeDesc, fetchBounds[:], buckets[:], m.fetchTimes[t].nanos.Load(), name)
		for i, kind := range purgeKinds {
			count(purgesDesc, m.purges[t][i].Load(), name, kind)
		}
		count(refusedDesc, m.refused[t].Load(), name)
		count(incoherentDesc, m.incoherent[t].Load(), name)
		for i, kind := range suspicionKinds {
			count(suspicionsDesc, m.suspicions[t][i].Load(), name, string(kind))
		}
		if d := state.Documents[t]; d.Held {
			gauge(freshDesc, d.FreshUntil.Sub(now).Seconds(), name)
		}
	}
	gauge(redisDesc, number(state.RedisUp))
	gauge(trackingDesc, number(state.Tracking))
	gauge(breakerDesc, number(state.BreakerOpen))
}

// histogram makes one of buckets that count what is in each alone; the last is for what is beyond all bounds.
func histogram(d *prometheus.Desc, bounds []time.Duration, buckets []uint64, nanos uint64, labels ...string) prometheus.Metric {
	cumulative, sum := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		sum += buckets[i]
		cumulative[bound.Seconds()] = sum
	}
	sum += buckets[len(bounds)]
	return prometheus.MustNewConstHistogram(d, sum, time.Duration(nanos).Seconds(), cumulative, labels...) //nolint:gosec // centuries
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
