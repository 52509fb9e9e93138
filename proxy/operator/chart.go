package operator

import (
	"fmt"
	"math"
	"strings"
	"time"

	"vitrine/proxy/metrics"
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
	Grid      bool // lines at the labels of Y
	Shapes    []outline

	from, to  time.Time // the ends of the axis X
	low, high float64   // the ends of the axis Y
}

// A key explains a class.
type key struct{ Class, Name string }

// A label stands at a place of an axis.
type label struct {
	At   float64
	Text string
}

// An outline is a path.
type outline struct{ Class, Path string }

// windowOf is the length of the axis X, and the distance between its labels. It goes as far back as
// the history does: a process that has just started has no hour to show.
func windowOf(h *metrics.History, now time.Time) (length, tick time.Duration) {
	for _, w := range []struct{ length, tick time.Duration }{
		{5 * time.Minute, time.Minute}, {15 * time.Minute, 3 * time.Minute}, {30 * time.Minute, 5 * time.Minute},
	} {
		if len(h.At) == 0 || now.Sub(h.At[0]) < w.length {
			return w.length, w.tick
		}
	}
	return metrics.Window, 15 * time.Minute
}

// newChart makes an empty chart. The labels are at equal distances on the axis Y, from its low to
// its high end.
func newChart(id, title string, st *Status, low, high float64, labels ...string) *chart {
	length, tick := windowOf(&st.History, st.Now)
	c := &chart{ID: id, Title: title, Grid: true, from: st.Now.Add(-length), to: st.Now, low: low, high: high}
	edge := length / 30 // a label closer to the end would be cut off
	for t := c.from.Add(edge).Truncate(tick).Add(tick); t.Before(c.to.Add(-edge)); t = t.Add(tick) {
		c.X = append(c.X, label{c.x(t), t.Local().Format("15:04")})
	}
	for i, text := range labels {
		c.Y = append(c.Y, label{c.y(low + (high-low)*float64(i)/float64(len(labels)-1)), text})
	}
	return c
}

func (c *chart) x(t time.Time) float64 {
	return left + (right-left)*min(1, max(0, float64(t.Sub(c.from))/float64(c.to.Sub(c.from))))
}

func (c *chart) y(v float64) float64 {
	return bottom - (bottom-top)*min(1, max(0, (v-c.low)/(c.high-c.low)))
}

// line draws values over the steps before the times in at; null is a gap. If it is filled, so is the
// space below it.
func (c *chart) line(class string, at []time.Time, values []*float64, scale func(float64) float64, filled bool) {
	var path, area strings.Builder
	for i, v := range values {
		if v == nil {
			continue
		}
		x, y := c.x(at[i]), c.y(scale(*v))
		if i == 0 || values[i-1] == nil {
			start := c.x(at[i].Add(-metrics.Step))
			fmt.Fprintf(&path, "M%.1f %.1f", start, y)
			fmt.Fprintf(&area, "M%.1f %.1fV%.1f", start, bottom, y)
		}
		fmt.Fprintf(&path, "L%.1f %.1f", x, y)
		fmt.Fprintf(&area, "L%.1f %.1f", x, y)
		if i+1 == len(values) || values[i+1] == nil {
			fmt.Fprintf(&area, "V%.1fZ", bottom)
		}
	}
	if filled {
		c.Shapes = append(c.Shapes, outline{"area", area.String()})
	}
	c.Shapes = append(c.Shapes, outline{class, path.String()})
}

// strip draws levels over the steps before the times in at, as a bar at height y.
func (c *chart) strip(y float64, at []time.Time, levels []metrics.Level) {
	bar := func(class string, from, to time.Time) {
		c.Shapes = append(c.Shapes, outline{class, fmt.Sprintf("M%.1f %.1fH%.1fv22H%.1fZ", c.x(from), c.y(y)-11, c.x(to), c.x(from))})
	}
	bar(metrics.Unknown.String(), c.from, c.to)
	for i := 0; i < len(at); {
		from := at[i].Add(-metrics.Step)
		if i > 0 {
			from = at[i-1]
		}
		level := levels[i]
		for i < len(at) && levels[i] == level {
			i++
		}
		bar(level.String(), from, at[i-1])
	}
}

// ceiling is the largest value, and the round number at or above it: 1, 2, 4 or 5 times a power of
// ten.
func ceiling(values []*float64) (most, round float64) {
	for _, v := range values {
		if v != nil {
			most = max(most, *v)
		}
	}
	if most <= 0 {
		return most, 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, m := range []float64{1, 2, 4, 5} {
		if m*power >= most {
			return most, m * power
		}
	}
	return most, 10 * power
}

// chartsOf draws the history.
func chartsOf(st *Status) []*chart {
	h, now := &st.History, &st.Traffic
	linear := func(v float64) float64 { return v }

	most, top := ceiling(h.RequestsPerSecond)
	requests := newChart("requests", "Requests per second", st, 0, top, "0", compact(top/2), compact(top))
	requests.Words = fmt.Sprintf("Now %s per second, at most %s within the last hour.", compact(now.RequestsPerSecond), compact(most))
	requests.line("one", h.At, h.RequestsPerSecond, linear, true)

	ratio := newChart("ratio", "Hit ratio", st, 0, 1, "0", "50%", "100%")
	ratio.Words = "No document was requested in the last minute."
	if now.HitRatio != nil {
		ratio.Words = fmt.Sprintf("In the last minute %s of the documents were served without waiting for the CMS.", percent(*now.HitRatio))
	}
	ratio.line("one", h.At, h.HitRatio, linear, true)

	latency := newChart("latency", "Time to answer", st, -3, 4, "1 µs", "", "0.1 ms", "", "10 ms", "", "1 s", "")
	latency.Words = "There were no requests in the last minute."
	if now.P50 != nil {
		latency.Words = fmt.Sprintf("In the last minute half of the requests took %s or less, 95%% %s and 99%% %s.",
			milliseconds(*now.P50), milliseconds(*now.P95), milliseconds(*now.P99))
	}
	latency.Keys = []key{{"one", "50%"}, {"two", "95%"}, {"three", "99%"}}
	latency.line("three", h.At, h.P99, math.Log10, false)
	latency.line("two", h.At, h.P95, math.Log10, false)
	latency.line("one", h.At, h.P50, math.Log10, false)
	return []*chart{requests, ratio, latency, stateChart(st)}
}

// stateChart draws the levels of the CMS and Redis, and marks for purges and refusals.
func stateChart(st *Status) *chart {
	h := &st.History
	c := newChart("state", "CMS and Redis", st, -0.5, 2.5, "", "Events", "", "Redis", "", "CMS", "")
	c.Grid = false
	c.Keys = []key{{"good", "up"}, {"degraded", "degraded"}, {"down", "down"}, {"purge", "purge"}, {"refusal", "refusal"}}
	c.strip(2, h.At, h.CMS)
	c.strip(1, h.At, h.Redis)
	marks := 0
	for _, e := range st.Events {
		class, path := "refusal", "M%.1f %.1fm-6 -6h12l-6 12Z" // a triangle
		switch e.Kind {
		case metrics.KindPurge, metrics.KindSoftPurge:
			class, path = "purge", "M%.1f %.1fm-6 0l6 -6 6 6 -6 6Z" // a diamond
		case metrics.KindRefusal, metrics.KindIncoherent:
		default:
			continue
		}
		if e.At.Before(c.from) {
			continue
		}
		marks++
		c.Shapes = append(c.Shapes, outline{class, fmt.Sprintf(path, c.x(e.At), c.y(0))})
	}
	trouble := func(levels []metrics.Level) (sum time.Duration) {
		for _, level := range levels {
			if level > metrics.Good {
				sum += metrics.Step
			}
		}
		return sum
	}
	c.Words = fmt.Sprintf("Within the last hour the CMS was degraded or down for %s, and Redis for %s. There are %d marks for purges and refusals; the events are listed below.",
		span(trouble(h.CMS)), span(trouble(h.Redis)), marks)
	return c
}
