package negotiate

import (
	"bytes"
	"net/http"
	"time"
)

// A Verdict is the outcome of a request's conditions (RFC 9110, section 13.2.2).
type Verdict uint8

// The outcomes.
const (
	Proceed     Verdict = iota // answer as if there were no condition
	NotModified                // 304
	Failed                     // 412
)

// Conditions are the values of the conditional fields of a request, nil for those that are absent.
type Conditions struct {
	IfMatch, IfNoneMatch, IfModifiedSince, IfUnmodifiedSince []byte
}

// Evaluate applies the conditions to the selected representation, in the order of RFC 9110, section
// 13.2.2. The tag is strong, quotes included; modified has whole seconds, and lastModified is the
// field that it was sent as.
func (c *Conditions) Evaluate(tag, lastModified []byte, modified, now time.Time) Verdict {
	switch {
	case c.IfMatch != nil:
		if !matchesTag(c.IfMatch, tag, true) {
			return Failed
		}
	case c.IfUnmodifiedSince != nil:
		if t, ok := parseDate(c.IfUnmodifiedSince, now); ok && modified.After(t) {
			return Failed
		}
	}
	switch {
	case c.IfNoneMatch != nil:
		if matchesTag(c.IfNoneMatch, tag, false) {
			return NotModified
		}
	case c.IfModifiedSince != nil:
		if bytes.Equal(c.IfModifiedSince, lastModified) {
			return NotModified
		}
		if t, ok := parseDate(c.IfModifiedSince, now); ok && !modified.After(t) {
			return NotModified
		}
	}
	return Proceed
}

// matchesTag reports whether a list of entity-tags, or *, holds tag, which is strong (RFC 9110,
// sections 8.8.3, 13.1.1 and 13.1.2). By the strong comparison a weak tag matches nothing. If the
// list is malformed, the part before the error counts.
func matchesTag(list, tag []byte, strong bool) bool {
	list = TrimBlanks(list)
	if string(list) == "*" {
		return true
	}
	for {
		var weak bool
		list, weak = bytes.CutPrefix(bytes.TrimLeft(list, " \t,"), []byte("W/"))
		n := tagLength(list)
		if n == 0 {
			return false
		}
		if bytes.Equal(list[:n], tag) && (!weak || !strong) {
			return true
		}
		list = TrimBlanks(list[n:])
		if len(list) == 0 || list[0] != ',' {
			return false
		}
	}
}

// tagLength is the length of the opaque-tag at the beginning of s, including quotes, or 0.
func tagLength(s []byte) int {
	if len(s) == 0 || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c <= ' ', c == 0x7f:
			return 0
		}
	}
	return 0
}

// parseDate reads an HTTP-date in any of its three formats (RFC 9110, section 5.6.7). A two-digit
// year is taken to be at most 50 years in the future, as that section requires.
func parseDate(value []byte, now time.Time) (time.Time, bool) {
	s := string(TrimBlanks(value))
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}, false
	}
	if _, err := time.Parse(time.RFC850, s); err == nil {
		for t.AddDate(100, 0, 0).Before(now.AddDate(50, 0, 0)) {
			t = t.AddDate(100, 0, 0)
		}
		for t.After(now.AddDate(50, 0, 0)) {
			t = t.AddDate(-100, 0, 0)
		}
	}
	return t, true
}
