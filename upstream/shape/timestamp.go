package shape

import (
	"regexp"
	"strings"
	"time"
)

// timestampLayout is the documented form: UTC, microseconds, years 0001 to 9999. All timestamps
// have it, so their order as text is their order in time.
const timestampLayout = "2006-01-02T15:04:05.000000Z"

// timestamp reads an instant; "" is none.
func (d *decoder) timestamp(dst []byte) ([]byte, error) {
	const want = "an ISO 8601 timestamp"
	raw, err := d.scalar(want, '"', '"')
	if err != nil {
		return dst, err
	}
	s := d.unquote(raw)
	t, repair, ok := parseTimestamp(string(s))
	switch {
	case len(s) == 0, ok && repair == "":
		return append(append(append(dst, '"'), s...), '"'), nil
	case !ok:
		return dst, d.refused(want, excerpt(raw))
	case t.Year() < 1 || t.Year() > 9999:
		return dst, d.refused("a timestamp in the years 0001 to 9999 of UTC", excerpt(raw))
	}
	d.note(repair)
	return append(t.AppendFormat(append(dst, '"'), timestampLayout), '"'), nil
}

// The forms of a timestamp, the documented one first. A fraction of a second can follow in all that
// have seconds.
var timestampForms = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05Z07:00:00",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02T15:04Z0700", "2006-01-02T15:04Z07", "2006-01-02T15:04Z07:00:00",
}

// beyond is an offset of 24 hours, or with 60 minutes or seconds, which time.Parse takes.
var beyond = regexp.MustCompile(`T.*[+-](24|..:?6|..:..:6)`)

// parseTimestamp reads a date, a T or a blank, a time and an offset, and returns what has to be
// repaired, "" for the documented form:
//
//	2023-04-05T06:07[:08[.123456789]][Z|±02|±0200|±02:00|±02:00:00]
//
// Seconds go to 59, since Python knows no leap second; digits beyond the sixth are cut off, as
// Python does; offsets with seconds are what Python writes for local mean time; without an offset
// it is UTC.
func parseTimestamp(s string) (t time.Time, repair Kind, ok bool) {
	if len(s) < len("2006-01-02T15:04") || !strings.Contains("Tt ", s[10:11]) || s[13] != ':' || s[:4] == "0000" {
		return t, "", false
	}
	plain := s
	if s[10] != 'T' || s[len(s)-1] == 'z' {
		plain = s[:10] + "T" + strings.ToUpper(s[11:])
	}
	for _, form := range timestampForms {
		t, err := time.Parse(form, plain)
		if err != nil {
			continue
		}
		if _, east := t.Zone(); east != 0 && beyond.MatchString(plain) {
			return t, "", false
		}
		var room [len(timestampLayout)]byte
		switch t = t.UTC().Truncate(time.Microsecond); {
		case !strings.Contains(form, "Z"):
			return t, KindZone, true
		case string(t.AppendFormat(room[:0], timestampLayout)) == s:
			return t, "", true
		}
		return t, KindTimestamp, true
	}
	return t, "", false
}
