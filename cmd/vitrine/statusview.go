package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// A view writes a status for a person who looks at it at the time now.
type view struct {
	*screen
	now time.Time
}

// barWidth is how many characters the whole time of freshness takes.
const barWidth = 10

func (v view) show(base string, s *operator.Status) {
	v.printf("%s %s at %s, up %s\n", v.bold("vitrine"), s.Version, base, brief(v.now.Sub(s.Started)))
	v.printf("  cms    %s\n", s.Upstream.URL)
	v.printf("  redis  %s\n\n", v.redis(s.Redis))

	rows := [][]string{{"", "state", "age", "fresh for", "", "bytes", "changed", "last fetch"}}
	for _, r := range shape.Resources() {
		rows = append(rows, v.row(r, s.Resources[r]))
	}
	v.table(rows)
	for _, r := range shape.Resources() {
		told := s.Resources[r]
		switch {
		case told.Error != "":
			v.printf("\n%s %s", v.bad(string(r)+":"), told.Error)
		case told.LastFetch != nil && told.LastFetch.Error != "":
			v.printf("\n%s %s", v.warn(string(r)+":"), told.LastFetch.Error)
		}
	}
	v.printf("\n")
}

func (v view) redis(r operator.Redis) string {
	where := r.Address
	if r.Embedded {
		where += ", inside the process"
	}
	switch {
	case !r.Up:
		return where + ", " + v.bad("away") + ": each process is on its own"
	case !r.Listening:
		return where + ", " + v.warn("purges are not being heard") + ": every answer is checked against it"
	default:
		return where + ", " + v.good("up") + ", purges are heard"
	}
}

// row is one resource: what is held, and how the last fetch went.
func (v view) row(r shape.Resource, told operator.Resource) []string {
	row := []string{v.bold(string(r)), v.bad("missing"), "", "", "", "", "", v.fetch(told.LastFetch)}
	held := told.Held
	if held == nil {
		return row
	}
	left := held.FreshUntil.Sub(v.now)
	row[1], row[3] = v.good("fresh"), brief(max(0, left))
	if held.Stale || left <= 0 {
		row[1], row[3] = v.warn("stale"), "ended "+brief(-left)+" ago"
		if held.FreshUntil.Before(held.FetchedAt) {
			row[3] = "purged softly"
		}
	}
	row[2] = brief(v.now.Sub(held.FetchedAt))
	row[4] = v.dim(bar(left, held.FreshUntil.Sub(held.FetchedAt)))
	row[5] = humanize.Comma(int64(held.Bytes))
	row[6] = brief(v.now.Sub(held.ChangedAt)) + " ago"
	return row
}

func (v view) fetch(f *operator.Fetch) string {
	if f == nil {
		return v.dim("none by this process")
	}
	ago := brief(v.now.Sub(f.At)) + " ago"
	if f.Error != "" {
		return v.bad("failed") + " " + ago
	}
	text := fmt.Sprintf("%d in %.0f ms, %s", f.Status, f.Milliseconds, ago)
	if f.Repairs > 0 {
		text += fmt.Sprintf(", %d repaired", f.Repairs)
	}
	return text
}

// table aligns columns. What cells have of colour takes no room, which is why
// text/tabwriter cannot do it.
func (v view) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], visible(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell + strings.Repeat(" ", widths[i]-visible(cell)))
		}
		v.printf("%s\n", strings.TrimRight(line.String(), " "))
	}
}

// visible is how many characters of text take room.
func visible(text string) int {
	n := utf8.RuneCountInString(text)
	for {
		_, rest, ok := strings.Cut(text, "\x1b[")
		if !ok {
			return n
		}
		code, after, _ := strings.Cut(rest, "m")
		n -= len("\x1b[") + len(code) + len("m")
		text = after
	}
}

// bar draws how much of whole is left.
func bar(left, whole time.Duration) string {
	filled := 0
	if whole > 0 {
		filled = int(max(0, min(barWidth, (left*barWidth+whole-1)/whole)))
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
}

// brief is a duration as one looks at it: 350ms, 12s, 4m10s, 3h5m, 12d.
func brief(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		text := d.Round(time.Second).String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		return text
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
