package operator

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart is one picture of the page, with its words.
type chart struct {
	ID    string
	Title string
	Words string // what it shows, for whoever does not see it
	Keys  []key
	SVG   template.HTML
}

// A key says what a paint means.
type key struct{ Class, Name string }

// drawn draws p into c.
func (c chart) drawn(p *plot.Plot) (chart, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return c, fmt.Errorf("draw %s: %w", c.ID, err)
	}
	c.SVG = cleanSVG(out.String(), c.ID, c.Title, c.Words)
	return c, nil
}

var (
	svgStyle  = regexp.MustCompile(`\s*style="([^"]*)"`)
	svgPaint  = regexp.MustCompile(`(?:fill|stroke):#([0-9A-Fa-f]{6})`)
	svgNumber = regexp.MustCompile(`(\d+\.\d)\d+`)
)

// cleanSVG makes a drawing fit for a page whose policy allows no inline style: what the library paints becomes a
// class, and the drawing is named and described for whoever does not see it.
func cleanSVG(drawing, id, title, words string) template.HTML {
	from, to := strings.Index(drawing, "<g "), strings.LastIndex(drawing, "</svg>")
	if from < 0 || to < from {
		return ""
	}
	body := svgStyle.ReplaceAllStringFunc(drawing[from:to], func(style string) string {
		class := ""
		if m := svgPaint.FindStringSubmatch(style); m != nil {
			var c color.RGBA
			if _, err := fmt.Sscanf(m[1], "%02x%02x%02x", &c.R, &c.G, &c.B); err == nil {
				c.A = 0xff
				class = paints[c]
			}
		}
		if class == "" {
			class = "none" // the ground; text has a style of its own whatever its class
		}
		return ` class="c-` + class + `"`
	})
	body = svgNumber.ReplaceAllString(body, "$1")
	head := fmt.Sprintf(`<svg class="chart" viewBox="0 0 %d %d" role="img" aria-labelledby="%[3]s-t" aria-describedby="%[3]s-d">`+
		`<title id="%[3]s-t">%[4]s</title><desc id="%[3]s-d">%[5]s</desc>`, chartWidth, chartHeight, id, html.EscapeString(title), html.EscapeString(words))
	return template.HTML(head + body + "</svg>") //nolint:gosec // the library's drawing holds numbers, our labels and times
}
