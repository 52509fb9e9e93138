package operator

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot"

	"vitrine/proxy/metrics"
)

// chartsOf draws the last hour.
func chartsOf(points []metrics.Point, st *Status) ([]chart, error) {
	var charts []chart
	for _, draw := range []func([]metrics.Point, *Status) (chart, error){requestsChart, ratioChart, latencyChart, stateChart} {
		c, err := draw(points, st)
		if err != nil {
			return nil, err
		}
		charts = append(charts, c)
	}
	return charts, nil
}

func requestsChart(points []metrics.Point, st *Status) (chart, error) {
	p := newPlot(points, st.Now)
	s := seriesOf(paintOne, points, func(p *metrics.Point) *float64 { return &p.RequestsPerSecond })
	top := niceTop(s.most())
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, top, fewTicks{}
	add(p, true, s)
	words := fmt.Sprintf("Now %s a second, at most %s within the last hour.", compact(st.Traffic.RequestsPerSecond), compact(s.most()))
	return chart{ID: "requests", Title: "Requests a second", Words: words}.drawn(p)
}

func ratioChart(points []metrics.Point, st *Status) (chart, error) {
	p := newPlot(points, st.Now)
	s := seriesOf(paintOne, points, func(p *metrics.Point) *float64 {
		if p.HitRatio == nil {
			return nil
		}
		percent := 100 * *p.HitRatio
		return &percent
	})
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, 100, fewTicks{unit: "%"}
	add(p, true, s)
	words := "No document was asked for in the last minute."
	if st.Traffic.HitRatio != nil {
		words = fmt.Sprintf("In the last minute %s of the documents were given without waiting for the CMS.", percent(*st.Traffic.HitRatio))
	}
	return chart{ID: "ratio", Title: "Hit ratio", Words: words}.drawn(p)
}

func latencyChart(points []metrics.Point, st *Status) (chart, error) {
	p := newPlot(points, st.Now)
	log := func(value func(*metrics.Point) *float64) func(*metrics.Point) *float64 {
		return func(p *metrics.Point) *float64 {
			v := value(p)
			if v == nil || *v <= 0 {
				return nil
			}
			l := math.Log10(*v)
			return &l
		}
	}
	p50 := seriesOf(paintOne, points, log(func(p *metrics.Point) *float64 { return p.P50 }))
	p95 := seriesOf(paintTwo, points, log(func(p *metrics.Point) *float64 { return p.P95 }))
	p99 := seriesOf(paintThree, points, log(func(p *metrics.Point) *float64 { return p.P99 }))
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = -3, 4, decades{}
	add(p, false, p99, p95, p50)
	words := "There were no requests in the last minute."
	if t := st.Traffic; t.P50 != nil {
		words = fmt.Sprintf("In the last minute half of the requests took %s or less, 95%% %s and 99%% %s.",
			milliseconds(*t.P50), milliseconds(*t.P95), milliseconds(*t.P99))
	}
	c := chart{ID: "latency", Title: "Time to answer", Words: words, Keys: []key{{"one", "50%"}, {"two", "95%"}, {"three", "99%"}}}
	return c.drawn(p)
}

// decades marks powers of ten of milliseconds.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(from, to float64) []plot.Tick {
	names := map[int]string{-3: "1 µs", -1: "0.1 ms", 1: "10 ms", 3: "1 s"}
	var ticks []plot.Tick
	for e := int(from); e <= int(to); e++ {
		if name := names[e]; name != "" {
			ticks = append(ticks, plot.Tick{Value: float64(e), Label: name})
		}
	}
	return ticks
}

func stateChart(points []metrics.Point, st *Status) (chart, error) {
	p := newPlot(points, st.Now)
	p.Y.Min, p.Y.Max = -0.5, 2.5
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 2, Label: "CMS"}, {Value: 1, Label: "Redis"}, {Value: 0, Label: "Marks"}}
	p.Add(strips{points: points, events: st.Events})
	bad := func(level func(*metrics.Point) metrics.Level) time.Duration {
		var sum time.Duration
		for i := range points {
			if level(&points[i]) > metrics.Good {
				sum += time.Duration(points[i].Seconds * float64(time.Second))
			}
		}
		return sum
	}
	marks := 0
	for _, e := range st.Events {
		if e.Kind == metrics.KindPurge || e.Kind == metrics.KindSoftPurge || e.Kind == metrics.KindRefusal {
			marks++
		}
	}
	words := fmt.Sprintf("In the last hour the CMS was not well for %s, and Redis for %s. There are %d marks for purges and refusals; the events are listed below.",
		span(bad(func(p *metrics.Point) metrics.Level { return p.CMS })), span(bad(func(p *metrics.Point) metrics.Level { return p.Redis })), marks)
	c := chart{ID: "state", Title: "CMS and Redis", Words: words, Keys: []key{
		{"good", "well"}, {"degraded", "in part"}, {"down", "away"}, {"purge", "purge"}, {"refusal", "refusal"},
	}}
	return c.drawn(p)
}
