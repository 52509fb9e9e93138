package operator

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"vitrine/proxy/metrics"
)

// The size of a chart in its own units; the page scales it to its width.
const (
	chartWidth  = 460
	chartHeight = 150
)

// The paints are stand-ins: [cleanSVG] makes a class of each, and the style sheet says what it looks like, in the
// light and in the dark.
var paints = map[color.RGBA]string{
	paintAxis: "axis", paintGrid: "grid", paintText: "text",
	paintOne: "one", paintTwo: "two", paintThree: "three", paintArea: "area",
	paintGood: "good", paintDegraded: "degraded", paintDown: "down", paintUnknown: "unknown",
	paintPurge: "purge", paintRefusal: "refusal",
}

var (
	paintAxis     = color.RGBA{0x01, 0, 0, 0xff}
	paintGrid     = color.RGBA{0x02, 0, 0, 0xff}
	paintText     = color.RGBA{0x03, 0, 0, 0xff}
	paintOne      = color.RGBA{0x04, 0, 0, 0xff}
	paintTwo      = color.RGBA{0x05, 0, 0, 0xff}
	paintThree    = color.RGBA{0x06, 0, 0, 0xff}
	paintArea     = color.RGBA{0x07, 0, 0, 0xff}
	paintGood     = color.RGBA{0x08, 0, 0, 0xff}
	paintDegraded = color.RGBA{0x09, 0, 0, 0xff}
	paintDown     = color.RGBA{0x0a, 0, 0, 0xff}
	paintUnknown  = color.RGBA{0x0b, 0, 0, 0xff}
	paintPurge    = color.RGBA{0x0c, 0, 0, 0xff}
	paintRefusal  = color.RGBA{0x0d, 0, 0, 0xff}
)

// windows are how far back charts can go, and how far apart their marks are then.
var windows = []struct{ back, tick time.Duration }{
	{5 * time.Minute, time.Minute}, {15 * time.Minute, 3 * time.Minute}, {30 * time.Minute, 5 * time.Minute}, {metrics.Window, 15 * time.Minute},
}

// windowOf is as far as the points go back, since a process that has just started has nothing to show of an hour.
func windowOf(points []metrics.Point, now time.Time) (back, tick time.Duration) {
	var age time.Duration
	if len(points) > 0 {
		age = now.Sub(points[0].At)
	}
	for _, w := range windows {
		if age < w.back {
			return w.back, w.tick
		}
	}
	return metrics.Window, windows[len(windows)-1].tick
}

// newPlot is an empty chart of the time before now that there is something of.
func newPlot(points []metrics.Point, now time.Time) *plot.Plot {
	back, tick := windowOf(points, now)
	p := plot.New()
	small := font.From(plotter.DefaultFont, 11)
	p.BackgroundColor = color.Transparent
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color, axis.Tick.Label.Color = paintAxis, paintAxis, paintText
		axis.Tick.Label.Font, axis.Tick.Length, axis.Padding = small, 0, 6
		axis.Width, axis.Tick.Width = 0, 0
	}
	p.X.Min, p.X.Max = float64(now.Add(-back).Unix()), float64(now.Unix())
	p.X.Tick.Marker = clockTicks{every: tick.Seconds(), edge: back.Seconds() / 30}
	return p
}

// clockTicks marks round times of the day.
type clockTicks struct {
	every, edge float64 // seconds; a label closer than edge to the chart's would be cut off
}

// Ticks implements plot.Ticker.
func (c clockTicks) Ticks(from, to float64) []plot.Tick {
	var ticks []plot.Tick
	for t := math.Ceil((from+c.edge)/c.every) * c.every; t <= to-c.edge; t += c.every {
		ticks = append(ticks, plot.Tick{Value: t, Label: time.Unix(int64(t), 0).Format("15:04")})
	}
	return ticks
}

// fewTicks are three marks that a person likes to read, from 0 on.
type fewTicks struct{ unit string }

// Ticks implements plot.Ticker.
func (f fewTicks) Ticks(_, to float64) []plot.Tick {
	return []plot.Tick{{Value: 0, Label: "0"}, {Value: to / 2, Label: compact(to/2) + f.unit}, {Value: to, Label: compact(to) + f.unit}}
}

// niceTop is the round number at or above most: 1, 2 or 5 times a power of ten.
func niceTop(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, m := range []float64{1, 2, 4, 5, 10} {
		if m*power >= most {
			return m * power
		}
	}
	return 10 * power
}

// compact writes a number with three digits at most.
func compact(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

// A series is one line of a chart.
type series struct {
	paint  color.RGBA
	points plotter.XYs // a NaN is a gap
}

// seriesOf reads a value off each point; null is a gap.
func seriesOf(paint color.RGBA, points []metrics.Point, value func(*metrics.Point) *float64) series {
	s := series{paint: paint, points: make(plotter.XYs, 0, len(points))}
	for i := range points {
		y := math.NaN()
		if v := value(&points[i]); v != nil {
			y = *v
		}
		s.points = append(s.points, plotter.XY{X: float64(points[i].At.Unix()), Y: y})
	}
	return s
}

// most is the largest value.
func (s series) most() float64 {
	most := 0.0
	for _, p := range s.points {
		if p.Y > most { // never a NaN
			most = p.Y
		}
	}
	return most
}

// add draws the lines, and the area beneath the first where it is wanted.
func add(p *plot.Plot, area bool, lines ...series) {
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color, grid.Horizontal.Width = 0, paintGrid, 1
	p.Add(grid)
	for i, s := range lines {
		for _, run := range s.runs() {
			if area && i == 0 {
				p.Add(&plotter.Polygon{XYs: []plotter.XYs{under(run)}, Color: paintArea})
			}
			p.Add(&plotter.Line{XYs: run, LineStyle: draw.LineStyle{Color: s.paint, Width: 1}})
		}
	}
}

// runs cuts a line at its gaps. A point on its own becomes a short dash.
func (s series) runs() []plotter.XYs {
	var runs []plotter.XYs
	var current plotter.XYs
	end := func() {
		if len(current) == 1 {
			current = plotter.XYs{{X: current[0].X - metrics.Step.Seconds(), Y: current[0].Y}, current[0]}
		}
		if len(current) > 0 {
			runs = append(runs, current)
		}
		current = nil
	}
	for _, p := range s.points {
		if math.IsNaN(p.Y) {
			end()
			continue
		}
		current = append(current, p)
	}
	end()
	return runs
}

// under is the area between a line and the axis.
func under(line plotter.XYs) plotter.XYs {
	area := append(plotter.XYs{{X: line[0].X}}, line...)
	return append(area, plotter.XY{X: line[len(line)-1].X})
}

// strips draws how the CMS and Redis did, with marks for what happened.
type strips struct {
	points []metrics.Point
	events []metrics.Event
}

// Plot implements plot.Plotter. The CMS is at 2, Redis at 1, and marks at 0 on the axis.
func (s strips) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	left, right := tx(p.X.Min), tx(p.X.Max)
	for row, level := range map[float64]func(metrics.Point) metrics.Level{
		2: func(p metrics.Point) metrics.Level { return p.CMS },
		1: func(p metrics.Point) metrics.Level { return p.Redis },
	} {
		y, half := ty(row), vg.Length(11)
		rect := func(paint color.RGBA, from, to vg.Length) {
			from, to = max(from, left), min(to, right)
			if to > from {
				c.FillPolygon(paint, []vg.Point{{X: from, Y: y - half}, {X: to, Y: y - half}, {X: to, Y: y + half}, {X: from, Y: y + half}})
			}
		}
		rect(paintUnknown, left, right)
		for i := 0; i < len(s.points); {
			j := i + 1
			for j < len(s.points) && level(s.points[j]) == level(s.points[i]) {
				j++
			}
			began := s.points[i].At.Add(-metrics.Step)
			if i > 0 {
				began = s.points[i-1].At
			}
			rect(paintOf(level(s.points[i])), tx(float64(began.Unix())), tx(float64(s.points[j-1].At.Unix())))
			i = j
		}
	}
	for _, e := range slices.Backward(s.events) {
		x := tx(float64(e.At.UnixMilli()) / 1000)
		if x < left || x > right {
			continue
		}
		y, r := ty(0), vg.Length(6)
		switch e.Kind {
		case metrics.KindPurge, metrics.KindSoftPurge: // a diamond
			c.FillPolygon(paintPurge, []vg.Point{{X: x - r, Y: y}, {X: x, Y: y - r}, {X: x + r, Y: y}, {X: x, Y: y + r}})
		case metrics.KindRefusal, metrics.KindIncoherent: // a triangle
			c.FillPolygon(paintRefusal, []vg.Point{{X: x - r, Y: y - r}, {X: x + r, Y: y - r}, {X: x, Y: y + r}})
		}
	}
}

func paintOf(l metrics.Level) color.RGBA {
	switch l {
	case metrics.Good:
		return paintGood
	case metrics.Degraded:
		return paintDegraded
	case metrics.Down:
		return paintDown
	case metrics.Unknown:
	}
	return paintUnknown
}
