package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
)

// A table of what was found.
type table struct {
	Name string
	Head []string
	Rows [][]string
}

// A chart of the same: how a cost grows along one axis.
type chart struct {
	Name, X string
	Lines   []line
}

// A line of a chart. Values below zero or at it are left out, as both axes are logarithmic.
type line struct {
	Name string
	X, Y []float64
}

// A report is what a run has found so far.
type report struct {
	Tables map[string]table
	Charts map[string]chart
	Texts  map[string]string

	order []string // of the tables of this run
	shown int      // of order
}

// results is where a run that writes keeps what was found, so that sections can be measured one at
// a time.
const results = "results.json"

// newReport makes a report, which begins with the results of earlier runs if they are to be kept.
func newReport(keep bool) (*report, error) {
	r := &report{Tables: map[string]table{}, Charts: map[string]chart{}, Texts: map[string]string{}}
	if !keep {
		return r, nil
	}
	raw, err := os.ReadFile(results)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, r)
	}
	return r, err
}

func (r *report) add(t table) {
	r.Tables[t.Name] = t
	r.order = append(r.order, t.Name)
}

func (r *report) chart(c chart)          { r.Charts[c.Name] = c }
func (r *report) text(name, text string) { r.Texts[name] = text }

// print prints the tables that were not printed yet.
func (r *report) print(w io.Writer) {
	for ; r.shown < len(r.order); r.shown++ {
		t := r.Tables[r.order[r.shown]]
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, strings.Join(t.Head, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintln(out, strings.Join(row, "\t"))
		}
		_ = out.Flush() // nothing can be done about a closed standard output
		fmt.Fprintln(w)
	}
}

//go:embed performance.md.tmpl results.md.tmpl
var pages embed.FS

// write writes docs/performance.md, RESULTS.md and the charts, and keeps the results.
func (r *report) write(docs string) error {
	kept, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(results, append(kept, '\n'), 0o644); err != nil {
		return err
	}
	made, err := template.New("pages").Funcs(template.FuncMap{
		"table": func(name string) string {
			if t, ok := r.Tables[name]; ok {
				return t.markdown()
			}
			return "Not measured."
		},
		"columns": func(name string, heads ...string) string { return r.Tables[name].columns(heads).markdown() },
		"only": func(quantity, name string, heads ...string) string {
			return r.Tables[name].only(quantity).columns(heads).markdown()
		},
		"chart": func(name, title string) string {
			if _, ok := r.Charts[name]; !ok {
				return ""
			}
			return fmt.Sprintf("![%s](../docs/images/performance-%s.svg)", title, name)
		},
		"text": func(name, otherwise string) string { return cmp.Or(r.Texts[name], otherwise) },
	}).ParseFS(pages, "*.tmpl")
	if err != nil {
		return err
	}
	for name, c := range r.Charts {
		if err := os.WriteFile(filepath.Join(docs, "images", "performance-"+name+".svg"), c.svg(), 0o644); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{"performance.md.tmpl": filepath.Join(docs, "performance.md"), "results.md.tmpl": "RESULTS.md"} {
		var out bytes.Buffer
		if err := made.ExecuteTemplate(&out, name, nil); err != nil {
			return err
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// only returns the rows of one quantity, which the second column names.
func (t table) only(quantity string) table {
	out, first := table{Head: t.Head}, ""
	for _, row := range t.Rows {
		if first = cmp.Or(row[0], first); row[1] == quantity {
			out.Rows = append(out.Rows, append([]string{first}, row[1:]...))
		}
	}
	return out
}

// columns returns the columns with these heads, without the rows for rates, which depend on the
// machine most. A cell that was not measured has a dash.
func (t table) columns(heads []string) table {
	out, first := table{Head: heads}, ""
	for _, row := range t.Rows {
		first = cmp.Or(row[0], first)
		if slices.Contains(row, "requests/s") {
			continue
		}
		cells := make([]string, len(heads))
		for i, head := range heads {
			cells[i] = cmp.Or(row[slices.Index(t.Head, head)], "–")
		}
		cells[0] = first
		out.Rows = append(out.Rows, cells)
	}
	return out
}

func (t table) markdown() string {
	var b strings.Builder
	row := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	row(t.Head)
	row(strings.Split(strings.Repeat("---,", len(t.Head)-1)+"---", ","))
	for _, cells := range t.Rows {
		row(cells)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// The size of a chart, and of what surrounds its lines.
const (
	width, height            = 640, 320
	left, right, top, bottom = 64, 150, 16, 44
)

var colours = []string{"#2463a8", "#b4512a", "#3b7d3e", "#7d4a9e"}

// svg draws the chart, on a ground of its own, so that it can be read in the dark too.
func (c chart) svg() []byte {
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for i := range l.X {
			if l.X[i] > 0 && l.Y[i] > 0 {
				x0, x1 = min(x0, l.X[i]), max(x1, l.X[i])
				y0, y1 = min(y0, l.Y[i]), max(y1, l.Y[i])
			}
		}
	}
	x0, x1 = math.Log10(x0), math.Log10(x1)
	y0, y1 = math.Floor(math.Log10(y0)), math.Ceil(math.Log10(y1)) // whole powers of ten
	if x1 == x0 {
		x1 = x0 + 1
	}
	if y1 == y0 {
		y1 = y0 + 1
	}
	atX := func(v float64) float64 { return left + (math.Log10(v)-x0)/(x1-x0)*(width-left-right) }
	atY := func(v float64) float64 { return height - bottom - (math.Log10(v)-y0)/(y1-y0)*(height-top-bottom) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for p := math.Ceil(x0); p <= x1; p++ {
		x := atX(math.Pow(10, p))
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, top, height-bottom, x, height-bottom+16, axis(p))
	}
	for p := y0; p <= y1; p++ {
		y := atY(math.Pow(10, p))
		fmt.Fprintf(&b, `<path d="M%d %.1f H%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, y, width-right, left-6, y+4, axis(p))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-8, c.X)
	for i, l := range c.Lines {
		colour := colours[i%len(colours)]
		var points []string
		for j := range l.X {
			if l.X[j] > 0 && l.Y[j] > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", atX(l.X[j]), atY(l.Y[j])))
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="3" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			width-right+10, top+14+20*i, colour, width-right+28, top+20+20*i, l.Name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axis is a power of ten as people read it.
func axis(p float64) string {
	switch v := math.Pow(10, p); {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	default:
		return fmt.Sprintf("%g", v)
	}
}
