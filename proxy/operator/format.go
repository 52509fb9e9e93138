package operator

import (
	"fmt"
	"strings"
	"time"
)

// span writes a duration with its one or two largest units.
func span(d time.Duration) string {
	d = d.Abs()
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ago writes the time from at to now.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	if d := now.Sub(at); d >= time.Second {
		return span(d) + " ago"
	}
	return "just now"
}

// clock is a time of the day, with the day where it is not that of now.
func clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return at.Format("2 Jan 15:04:05")
}

// milliseconds writes a number of them in the unit that suits it.
func milliseconds(ms float64) string { return scaled(1000*ms, " µs", " ms", " s") }

// compact writes a number with three digits at most.
func compact(v float64) string { return scaled(v, "", "k", "M") }

// scaled writes a number with the unit that suits it, each a thousand of the one before.
func scaled(v float64, units ...string) string {
	for v >= 1000 && len(units) > 1 {
		v, units = v/1000, units[1:]
	}
	return fmt.Sprintf("%.3g%s", v, units[0])
}

// percent never rounds up to all, nor down to nothing.
func percent(ratio float64) string {
	switch {
	case ratio >= 1:
		return "100%"
	case ratio > 0:
		ratio = min(max(ratio, 0.001), 0.999)
	}
	return fmt.Sprintf("%.1f%%", 100*ratio)
}

// capital is a name at the beginning of a sentence.
func capital[S ~string](name S) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(string(name[:1])) + string(name[1:])
}

// tag is an entity-tag short enough for a table: its first characters tell versions apart.
func tag(etag string) string {
	etag = strings.Trim(etag, `"`)
	return etag[:min(8, len(etag))]
}
