package shape

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// special marks the bytes of a string that may need escaping: quote, backslash, controls, and the
// first byte of U+2028 and U+2029.
var special = func() (t [256]bool) {
	for c := range ' ' {
		t[c] = true
	}
	t['"'], t['\\'], t[lineSeparators[0]] = true, true, true
	return t
}()

// lineSeparators is how U+2028 and U+2029 begin; the third byte is a8 or a9.
const lineSeparators = "\xe2\x80"

// appendString appends s as a JSON string, escaped like Python's json.dumps with
// ensure_ascii=False, plus U+2028 and U+2029, as Django REST Framework does. Everything else is
// literal, <, > and U+007F included.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !special[c] {
			continue
		}
		if c >= utf8.RuneSelf {
			if i+2 < len(s) && s[i:i+2] == lineSeparators && s[i+2]|1 == 0xa9 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, `\u202`...)
				dst = append(dst, '8'+s[i+2]&1)
				i += 2
				start = i + 1
			}
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendTimestamp(dst []byte, t Timestamp) []byte {
	dst = append(dst, '"')
	dst = append(dst, t...)
	return append(dst, '"')
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func appendIntOrNull(dst []byte, n *int64) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *n, 10)
}

func appendTags(dst []byte, tags []string) []byte {
	dst = append(dst, '[')
	for i, tag := range tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, tag)
	}
	return append(dst, ']')
}

func appendAsIs(dst []byte, value json.RawMessage) []byte {
	if value == nil {
		return append(dst, "null"...)
	}
	return append(dst, value...)
}
