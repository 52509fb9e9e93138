package shape

import "time"

// Timestamp is an instant in the documented form, 2006-01-02T15:04:05.000000Z: UTC, microseconds,
// years 0001 to 9999. "" is an empty one. All have the same form, so their order as text is their
// order in time.
type Timestamp string

const (
	timestampLayout = "2006-01-02T15:04:05.000000Z"
	wantTimestamp   = "an ISO 8601 timestamp"
)

// readTimestamp reads an instant; null, "" and a missing field are "".
func (d *decoder) readTimestamp(to *Timestamp) error {
	*to = ""
	if done, err := d.vacant(KindNull); done || err != nil {
		return err
	}
	if d.json.PeekKind() != '"' {
		return d.refuse(wantTimestamp)
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return d.broken(err)
	}
	s := d.unquote(raw)
	if s == "" {
		return nil
	}
	m, ok := parseMoment(s)
	if !ok {
		return d.refused(wantTimestamp, excerpt(raw))
	}
	if m.canonical {
		*to = Timestamp(s)
		return nil
	}
	t := m.utc()
	if y := t.Year(); y < 1 || y > 9999 {
		return d.refused("a timestamp in the years 0001 to 9999 of UTC", excerpt(raw))
	}
	d.note(m.repair())
	*to = Timestamp(t.Format(timestampLayout))
	return nil
}

// moment is a timestamp taken apart, each part within its range.
type moment struct {
	year, month, day, hour, minute, second int
	micros                                 int
	offset                                 int  // seconds east of UTC
	zoned                                  bool // an offset was given
	canonical                              bool // already in the documented form
}

// repair is the kind of repair that makes m canonical.
func (m moment) repair() Kind {
	if m.zoned {
		return KindTimestamp
	}
	return KindZone
}

func (m moment) utc() time.Time {
	return time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second-m.offset, m.micros*1000, time.UTC)
}

// parseMoment reads a date, a T or a blank, a time and an offset:
//
//	2023-04-05T06:07[:08[.123456789]][Z|±02|±0200|±02:00|±02:00:00]
//
// Seconds go to 59, since Python knows no leap second; digits beyond the sixth are cut off, as
// Python does; offsets with seconds are what Python writes for local mean time; without an offset
// it is UTC.
func parseMoment(s string) (moment, bool) {
	var m moment
	p := parser{s: s, ok: true}
	m.year = p.number(4, 1, 9999)
	p.one("-")
	m.month = p.number(2, 1, 12)
	p.one("-")
	m.day = p.number(2, 1, 31)
	canonical := p.one("Tt ") == 'T'
	m.hour = p.number(2, 0, 23)
	p.one(":")
	m.minute = p.number(2, 0, 59)
	if p.next(":") {
		p.one(":")
		m.second = p.number(2, 0, 59)
		if p.next(".,") {
			canonical = p.one(".,") == '.' && canonical
			var digits int
			m.micros, digits = p.fraction()
			canonical = canonical && digits == 6
		} else {
			canonical = false
		}
	} else {
		canonical = false
	}
	m.offset, m.zoned = p.offset()
	m.canonical = canonical && len(s) == len(timestampLayout) && s[len(s)-1] == 'Z'
	return m, p.ok && p.s == "" && m.day <= daysIn(m.year, m.month)
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// parser consumes s from the front; ok turns false at the first error.
type parser struct {
	s  string
	ok bool
}

// number takes exactly n digits with a value from low to high.
func (p *parser) number(n, low, high int) int {
	if len(p.s) < n || !allDigits(p.s[:n]) {
		p.ok = false
		return 0
	}
	v := 0
	for i := range n {
		v = v*10 + int(p.s[i]-'0')
	}
	p.s = p.s[n:]
	if v < low || v > high {
		p.ok = false
	}
	return v
}

// next reports whether the next character is in set.
func (p *parser) next(set string) bool {
	for i := range len(set) {
		if p.s != "" && p.s[0] == set[i] {
			return true
		}
	}
	return false
}

// one takes one character, which must be in set.
func (p *parser) one(set string) byte {
	if !p.next(set) {
		p.ok = false
		return 0
	}
	c := p.s[0]
	p.s = p.s[1:]
	return c
}

// fraction takes the digits of a second, at least one, and returns the microseconds and how many
// digits there were.
func (p *parser) fraction() (micros, digits int) {
	for digits < len(p.s) && p.s[digits] >= '0' && p.s[digits] <= '9' {
		if digits < 6 {
			micros = micros*10 + int(p.s[digits]-'0')
		}
		digits++
	}
	p.s = p.s[digits:]
	for range 6 - digits {
		micros *= 10
	}
	p.ok = p.ok && digits > 0
	return micros, digits
}

// offset takes what is left, and returns seconds east of UTC.
func (p *parser) offset() (seconds int, zoned bool) {
	if p.s == "" {
		return 0, false
	}
	sign := p.one("Zz+-")
	if sign != '+' && sign != '-' {
		return 0, true
	}
	seconds = 3600 * p.number(2, 0, 23)
	if p.s != "" {
		colon := p.next(":")
		if colon {
			p.one(":")
		}
		seconds += 60 * p.number(2, 0, 59)
		if colon && p.s != "" {
			p.one(":")
			seconds += p.number(2, 0, 59)
		}
	}
	if sign == '-' {
		seconds = -seconds
	}
	return seconds, true
}
