package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// span is the length of a time, in its largest unit.
func span(d time.Duration) string {
	return strings.TrimSpace(humanize.RelTime(time.Time{}, time.Time{}.Add(max(d.Abs(), time.Second)), "", ""))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ago is how long ago something was.
func ago(at, now time.Time) string { return humanize.RelTime(at, now, "ago", "from now") }

// clock is a time of the day, with the day where it is not that of now.
func clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return at.Format("2 Jan 15:04:05")
}

// milliseconds is a number of them in the unit that suits it.
func milliseconds(ms float64) string { return humanize.SIWithDigits(ms/1000, 1, "s") }

// number is one with two decimals at most.
func number(v float64) string { return humanize.CommafWithDigits(v, 2) }

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

// tag is an entity-tag short enough for a table: its first characters tell versions apart.
func tag(etag string) string {
	etag = strings.Trim(etag, `"`)
	return etag[:min(8, len(etag))]
}
