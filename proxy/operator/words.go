package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// span is a duration as a person says it: with its one or two largest units.
func span(d time.Duration) string {
	d = d.Abs()
	type unit struct {
		length time.Duration
		name   string
	}
	units := []unit{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.length {
			continue
		}
		first := d / u.length
		text := fmt.Sprintf("%d %s", first, u.name)
		if i+1 < len(units) && first < 10 {
			if rest := d % u.length / units[i+1].length; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// ago says how long before now at was.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "not known when"
	}
	if d := now.Sub(at); d >= time.Second {
		return span(d) + " ago"
	}
	return "just now"
}

// milliseconds writes a time given in them in the unit that suits it.
func milliseconds(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.3g µs", ms*1000)
	case ms < 1000:
		return fmt.Sprintf("%.3g ms", ms)
	}
	return fmt.Sprintf("%.3g s", ms/1000)
}

// percent never rounds up to all, nor down to nothing.
func percent(ratio float64) string {
	switch {
	case ratio >= 1:
		return "100%"
	case ratio > 0.999:
		return "99.9%"
	case ratio > 0 && ratio < 0.001:
		return "0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*ratio)
}

func size(bytes int) string { return humanize.IBytes(uint64(max(0, bytes))) }

// plural counts things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// capital is a name as it begins a heading.
func capital(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// clock is a time of the day, with the day where it is another.
func clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return at.Format("2 Jan 15:04:05")
}

// tag is an entity-tag short enough for a table: its first characters tell versions apart.
func tag(etag string) string {
	etag = strings.Trim(etag, `"`)
	return etag[:min(8, len(etag))]
}
