package operator

import (
	"fmt"
	"math"
	"strings"
	"time"

	"vitrine/proxy/operator/metrics"
)

// The plot within the view box of a chart, which assets/chart.html draws; the page scales it to its
// width.
const left, right, top, bottom = 46.0, 452.0, 10.0, 122.0

// A chart is one picture of the page, in the units of its view box. The style sheet colours its
// classes.
type chart struct {
	ID, Title string
	Words     string // its content, for readers who do not see it
	Keys      []key
	X, Y      []label
	Shapes    []outline

	now       time.Time
	window    time.Duration // the length of the axis X
	low, high float64       // the ends of the axis Y
}

// A key explains a class.
type key struct{ Class, Text string }

// A label stands at a place of an axis.
type label struct {
	At   float64
	Text string
}

// An outline is a path.
type outline struct{ Class, Path string }

// newChart makes an empty chart. It goes as far back as the history does, and has labels at equal
// distances from its low to its high end.
func newChart(id, title string, st *Status, low, high float64, labels ...string) *chart {
	c := &chart{ID: id, Title: title, now: st.Now, window: metrics.Window, low: low, high: high}
	for _, shorter := range []time.Duration{20 * time.Minute, 4 * time.Minute} {
		if len(st.History.At) == 0 || st.Now.Sub(st.History.At[0]) < shorter {
			c.window = shorter
		}
	}
	for _, ago := range []time.Duration{c.window / 4, c.window / 2, c.window * 3 / 4} {
		c.X = append(c.X, label{c.x(c.now.Add(-ago)), span(ago) + " ago"})
	}
	for i, text := range labels {
		c.Y = append(c.Y, label{c.y(low + (high-low)*float64(i)/float64(len(labels)-1)), text})
	}
	return c
}

func (c *chart) x(t time.Time) float64 {
	return right - (right-left)*min(1, max(0, float64(c.now.Sub(t))/float64(c.window)))
}

func (c *chart) y(v float64) float64 {
	return bottom - (bottom-top)*min(1, max(0, (v-c.low)/(c.high-c.low)))
}

func (c *chart) add(class, format string, args ...any) {
	c.Shapes = append(c.Shapes, outline{class, fmt.Sprintf(format, args...)})
}

// line draws values over the steps before the times in at; null is a gap.
func (c *chart) line(class string, at []time.Time, values []*float64, scale func(float64) float64) {
	var path strings.Builder
	for i, v := range values {
		if v == nil {
			continue
		}
		y := c.y(scale(*v))
		if i == 0 || values[i-1] == nil {
			fmt.Fprintf(&path, "M%.1f %.1f", c.x(at[i].Add(-metrics.Step)), y)
		}
		fmt.Fprintf(&path, "L%.1f %.1f", c.x(at[i]), y)
	}
	c.add(class, "%s", path.String())
}

// strip draws levels over the steps before the times in at, as a bar at a height, and returns for
// how long they were not good.
func (c *chart) strip(height float64, at []time.Time, levels []metrics.Level) (trouble time.Duration) {
	bar := func(class string, from, to time.Time) {
		c.add(class, "M%.1f %.1fH%.1fv22H%.1fZ", c.x(from), c.y(height)-11, c.x(to), c.x(from))
	}
	bar(string(metrics.Unknown), c.now.Add(-c.window), c.now)
	for i, from := 0, 0; i < len(levels); i++ {
		if levels[i] == metrics.Degraded || levels[i] == metrics.Down {
			trouble += metrics.Step
		}
		if i+1 == len(levels) || levels[i+1] != levels[i] {
			bar(string(levels[i]), at[from].Add(-metrics.Step), at[i])
			from = i + 1
		}
	}
	return trouble
}

// ceiling is the round number at or above all values: 1, 2, 4 or 5 times a power of ten.
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
	for _, m := range []float64{1, 2, 4, 5} {
		if m*power >= most {
			return m * power
		}
	}
	return 10 * power
}

// chartsOf draws the history.
func chartsOf(st *Status) []*chart {
	h, now := &st.History, &st.Traffic
	linear := func(v float64) float64 { return v }

	most := ceiling(h.RequestsPerSecond)
	requests := newChart("requests", "Requests per second", st, 0, most, "0", compact(most/2), compact(most))
	requests.Words = fmt.Sprintf("Now %s per second.", compact(now.RequestsPerSecond))
	requests.line("one", h.At, h.RequestsPerSecond, linear)

	ratio := newChart("ratio", "Hit ratio", st, 0, 1, "0", "50%", "100%")
	ratio.Words = "No document was requested in the last minute."
	if now.HitRatio != nil {
		ratio.Words = fmt.Sprintf("In the last minute %s of the documents were served without waiting for the CMS.", percent(*now.HitRatio))
	}
	ratio.line("one", h.At, h.HitRatio, linear)

	latency := newChart("latency", "Time to answer", st, -3, 4, "1 µs", "", "0.1 ms", "", "10 ms", "", "1 s", "")
	latency.Words = "There were no requests in the last minute."
	if now.P50 != nil {
		latency.Words = fmt.Sprintf("In the last minute half of the requests took %s or less, 95%% %s and 99%% %s.",
			milliseconds(*now.P50), milliseconds(*now.P95), milliseconds(*now.P99))
	}
	latency.Keys = []key{{"one", "50%"}, {"two", "95%"}, {"three", "99%"}}
	latency.line("three", h.At, h.P99, math.Log10)
	latency.line("two", h.At, h.P95, math.Log10)
	latency.line("one", h.At, h.P50, math.Log10)

	state := newChart("state", "CMS and Redis", st, -0.5, 2.5, "", "Events", "", "Redis", "", "CMS", "")
	state.Keys = []key{{"good", "up"}, {"degraded", "degraded"}, {"down", "down"}, {"purge", "purge"}, {"refusal", "refusal"}}
	state.Words = fmt.Sprintf("Within the last hour the CMS was degraded or down for %s, and Redis for %s. The events are listed below.",
		span(state.strip(2, h.At, h.CMS)), span(state.strip(1, h.At, h.Redis)))
	for _, e := range st.Events {
		switch e.Kind {
		case metrics.KindPurge, metrics.KindSoftPurge:
			state.add("purge", "M%.1f %.1fm-6 0l6 -6 6 6 -6 6Z", state.x(e.At), state.y(0)) // a diamond
		case metrics.KindRefusal, metrics.KindIncoherent:
			state.add("refusal", "M%.1f %.1fm-6 -6h12l-6 12Z", state.x(e.At), state.y(0)) // a triangle
		}
	}
	return []*chart{requests, ratio, latency, state}
}
