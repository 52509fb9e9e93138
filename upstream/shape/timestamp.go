package shape

import (
	"strconv"
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
	case !inRange(t):
		return dst, d.refused("a timestamp in the years 0001 to 9999 of UTC", excerpt(raw))
	}
	d.note(repair)
	return appendTimestamp(dst, t), nil
}

func inRange(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

func appendTimestamp(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), timestampLayout), '"')
}

// parseTimestamp reads a date, a T or a blank, a time and an offset, and returns what has to be
// repaired, "" for the documented form:
//
//	2023-04-05T06:07[:08[.123456789]][Z|±02|±0200|±02:00|±02:00:00]
//
// Seconds go to 59, since Python knows no leap second; digits beyond the sixth are cut off, as
// Python does; offsets with seconds are what Python writes for local mean time; without an offset
// it is UTC.
func parseTimestamp(s string) (t time.Time, repair Kind, ok bool) {
	const minutes, seconds = len("2006-01-02T15:04"), len("2006-01-02T15:04:05")
	if len(s) < minutes || !strings.Contains("Tt ", s[10:11]) {
		return t, "", false
	}
	clock, micros, rest := s[:minutes], "0", s[minutes:]
	if len(s) >= seconds && rest[0] == ':' {
		clock, rest = s[:seconds], s[seconds:]
		if rest != "" && (rest[0] == '.' || rest[0] == ',') {
			after := strings.TrimLeft(rest[1:], "0123456789")
			digits := rest[1 : len(rest)-len(after)]
			if digits == "" {
				return t, "", false
			}
			micros, rest = (digits + "00000")[:6], after
		}
	}
	for i := range len(clock) {
		if c := timestampLayout[i]; i != 10 && c != clock[i] && (c < '0' || clock[i] < '0' || clock[i] > '9' || c == ':') {
			return t, "", false
		}
	}
	two := func(at int) int {
		if at >= len(clock) {
			return 0
		}
		return int(clock[at]-'0')*10 + int(clock[at+1]-'0')
	}
	fraction, _ := strconv.Atoi(micros) // six digits
	year, month, day, hour, minute, second := two(0)*100+two(2), two(5), two(8), two(11), two(14), two(17)
	t = time.Date(year, time.Month(month), day, hour, minute, second, fraction*1000, time.UTC)
	if year == 0 || int(t.Month()) != month || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return t, "", false
	}
	switch rest {
	case "":
		return t, KindZone, true
	case "Z", "z":
		if len(s) == len(timestampLayout) && s[10] == 'T' && s[19] == '.' && rest == "Z" {
			return t, "", true
		}
		return t, KindTimestamp, true
	}
	for _, layout := range []string{"15", "1504", "15:04", "15:04:05"} {
		offset, err := time.Parse(layout, rest[1:])
		if err != nil || len(rest)-1 != len(layout) {
			continue
		}
		east := offset.Sub(offset.Truncate(24 * time.Hour))
		switch rest[0] {
		case '+':
			return t.Add(-east), KindTimestamp, true
		case '-':
			return t.Add(east), KindTimestamp, true
		}
	}
	return t, "", false
}
