package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/verdict"
)

// A chart is one picture of the page. Its view box, which assets/chart.html stretches over the plot,
// is a second wide for each second of its window, and 100 high. The style sheet colours its classes.
type chart struct {
	ID, Title string
	Words     string // its content, for readers who do not see it
	Rows      bool   // Y names rows, not heights
	Y         []string
	Keys      []pair
	Lines     []pair // paths
	Window    time.Duration

	history []metrics.Point
	now     time.Time
}

// A pair is a class and its text or path.
type pair struct{ Class, Text string }

func (c *chart) x(at time.Time) float64 { return (c.Window - c.now.Sub(at)).Seconds() }

func (c *chart) add(class, path string) { c.Lines = append(c.Lines, pair{class, path}) }

// line draws a value of each step at a share of the height; nil is a gap.
func (c *chart) line(class string, value func(metrics.Point) *float64, height func(float64) float64) {
	var path strings.Builder
	draws := false
	for _, p := range c.history {
		v := value(p)
		if v != nil {
			y := 100 - 100*min(1, max(0, height(*v)))
			if !draws {
				fmt.Fprintf(&path, "M%.0f %.1f", c.x(p.At.Add(-metrics.Step)), y)
			}
			fmt.Fprintf(&path, "L%.0f %.1f", c.x(p.At), y)
		}
		draws = v != nil
	}
	c.add(class, path.String())
}

// levels draws the level of each step in a row, and returns for how long it was not good.
func (c *chart) levels(y float64, level func(metrics.Point) verdict.Level) (trouble time.Duration) {
	from := time.Time{}
	for i, p := range c.history {
		l := level(p)
		if l == verdict.Degraded || l == verdict.Down {
			trouble += metrics.Step
		}
		if i == 0 || level(c.history[i-1]) != l {
			from = p.At.Add(-metrics.Step)
		}
		if i+1 == len(c.history) || level(c.history[i+1]) != l {
			c.add(string(l), fmt.Sprintf("M%.0f %.1fH%.0f", c.x(from), y, c.x(p.At)))
		}
	}
	return trouble
}

// ceiling is the number of one digit and zeros at or above another.
func ceiling(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	return power * math.Ceil(most/power)
}

// chartsOf draws the history, as far back as it goes.
func chartsOf(st Status) []*chart {
	blank := chart{Window: metrics.Window, history: st.History, now: st.Now}
	for _, shorter := range []time.Duration{20 * time.Minute, 4 * time.Minute} {
		if len(st.History) == 0 || st.Now.Sub(st.History[0].At) < shorter {
			blank.Window = shorter
		}
	}
	requests, ratio, latency, state := blank, blank, blank, blank

	most := 0.0
	for _, p := range st.History {
		most = max(most, p.RequestsPerSecond)
	}
	most = ceiling(most)
	requests.ID, requests.Title, requests.Y = "requests", "Requests per second", []string{number(most), number(most / 2), "0"}
	requests.line("one", func(p metrics.Point) *float64 { return &p.RequestsPerSecond }, func(v float64) float64 { return v / most })

	ratio.ID, ratio.Title, ratio.Y = "ratio", "Hit ratio", []string{"100%", "50%", "0"}
	ratio.line("one", func(p metrics.Point) *float64 { return p.HitRatio }, func(v float64) float64 { return v })

	latency.ID, latency.Title, latency.Y = "latency", "Response time", []string{"100 s", "1 s", "10 ms", "100 µs", "1 µs"}
	latency.Keys = []pair{{"one", "p50"}, {"two", "p95"}, {"three", "p99"}}
	for i, key := range latency.Keys {
		latency.line(key.Class, func(p metrics.Point) *float64 { return []*float64{p.P50, p.P95, p.P99}[i] },
			func(ms float64) float64 { return (3 + math.Log10(ms)) / 8 })
	}

	state.ID, state.Title, state.Rows, state.Y = "state", "CMS, Redis and events", true, []string{"CMS", "Redis", "Purges", "Rejections"}
	state.Keys = []pair{{"good", "up"}, {"degraded", "degraded"}, {"down", "down"}}
	state.Words = fmt.Sprintf("Within the last hour the CMS was degraded or down for %s, and Redis for %s. The events are listed below.",
		span(state.levels(12.5, func(p metrics.Point) verdict.Level { return p.CMS })),
		span(state.levels(37.5, func(p metrics.Point) verdict.Level { return p.Redis })))
	for _, e := range slices.Backward(st.Events) {
		switch e.Kind {
		case metrics.KindPurge, metrics.KindSoftPurge:
			state.add("purge", fmt.Sprintf("M%.0f 55v15", state.x(e.At)))
		case metrics.KindRefusal:
			state.add("rejection", fmt.Sprintf("M%.0f 80v15", state.x(e.At)))
		}
	}
	return []*chart{&requests, &ratio, &latency, &state}
}
