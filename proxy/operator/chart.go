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

	history *metrics.History
	now     time.Time
}

// A pair is a class and its text or path.
type pair struct{ Class, Text string }

func (c *chart) x(at time.Time) float64 { return (c.Window - c.now.Sub(at)).Seconds() }

func (c *chart) add(class, path string) { c.Lines = append(c.Lines, pair{class, path}) }

// line draws values over the steps before their times, each at a share of the height; nil is a gap.
func (c *chart) line(class string, values []*float64, height func(float64) float64) {
	var path strings.Builder
	for i, v := range values {
		if v == nil {
			continue
		}
		at, y := c.history.At[i], 100-100*min(1, max(0, height(*v)))
		if i == 0 || values[i-1] == nil {
			fmt.Fprintf(&path, "M%.0f %.1f", c.x(at.Add(-metrics.Step)), y)
		}
		fmt.Fprintf(&path, "L%.0f %.1f", c.x(at), y)
	}
	c.add(class, path.String())
}

// levels draws levels over the steps before their times as a row, and returns for how long they
// were not good.
func (c *chart) levels(y float64, levels []verdict.Level) (trouble time.Duration) {
	for i, from := 0, 0; i < len(levels); i++ {
		if levels[i] == verdict.Degraded || levels[i] == verdict.Down {
			trouble += metrics.Step
		}
		if i+1 == len(levels) || levels[i+1] != levels[i] {
			at := c.history.At
			c.add(string(levels[i]), fmt.Sprintf("M%.0f %.1fH%.0f", c.x(at[from].Add(-metrics.Step)), y, c.x(at[i])))
			from = i + 1
		}
	}
	return trouble
}

// ceiling is the number of one digit and zeros at or above all values.
func ceiling(values []*float64) float64 {
	most := 0.0
	for _, v := range values {
		if v != nil {
			most = max(most, *v)
		}
	}
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	return power * math.Ceil(most/power)
}

// chartsOf draws the history, as far back as it goes.
func chartsOf(st Status) []*chart {
	h := &st.History
	blank := chart{Window: metrics.Window, history: h, now: st.Now}
	for _, shorter := range []time.Duration{20 * time.Minute, 4 * time.Minute} {
		if len(h.At) == 0 || st.Now.Sub(h.At[0]) < shorter {
			blank.Window = shorter
		}
	}
	requests, ratio, latency, state := blank, blank, blank, blank

	most := ceiling(h.RequestsPerSecond)
	requests.ID, requests.Title, requests.Y = "requests", "Requests per second", []string{number(most), number(most / 2), "0"}
	requests.line("one", h.RequestsPerSecond, func(v float64) float64 { return v / most })

	ratio.ID, ratio.Title, ratio.Y = "ratio", "Hit ratio", []string{"100%", "50%", "0"}
	ratio.line("one", h.HitRatio, func(v float64) float64 { return v })

	latency.ID, latency.Title, latency.Y = "latency", "Response time", []string{"100 s", "1 s", "10 ms", "100 µs", "1 µs"}
	latency.Keys = []pair{{"one", "p50"}, {"two", "p95"}, {"three", "p99"}}
	for i, values := range [][]*float64{h.P50, h.P95, h.P99} {
		latency.line(latency.Keys[i].Class, values, func(ms float64) float64 { return (3 + math.Log10(ms)) / 8 })
	}

	state.ID, state.Title, state.Rows, state.Y = "state", "CMS, Redis and events", true, []string{"CMS", "Redis", "Purges", "Rejections"}
	state.Keys = []pair{{"good", "up"}, {"degraded", "degraded"}, {"down", "down"}}
	state.Words = fmt.Sprintf("Within the last hour the CMS was degraded or down for %s, and Redis for %s. The events are listed below.",
		span(state.levels(12.5, h.CMS)), span(state.levels(37.5, h.Redis)))
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
