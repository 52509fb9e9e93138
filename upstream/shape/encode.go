package shape

import (
	"strconv"
	"unicode/utf8"
)

// special marks the bytes of a string that need a look before they can be
// copied: quote, backslash, controls, and the first byte of U+2028 and U+2029.
var special = func() (t [256]bool) {
	for c := range ' ' {
		t[c] = true
	}
	t['"'], t['\\'], t[lineSeparators[0]] = true, true, true
	return t
}()

// lineSeparators is how U+2028 and U+2029 begin; the third byte is a8 or a9.
const lineSeparators = "\xe2\x80"

// appendString appends s as a JSON string, escaped as Python's json.dumps with
// ensure_ascii=False escapes, and U+2028 and U+2029 besides, as Django REST
// Framework does. Everything else stands for itself, <, > and U+007F too.
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

// The functions below append one field each, its key given as it is written:
// `,"title":`. A tag has the same key everywhere.

func appendText(dst []byte, key, s string) []byte {
	return appendString(append(dst, key...), s)
}

func appendTimestamp(dst []byte, key string, t Timestamp) []byte {
	dst = append(dst, key...)
	dst = append(dst, '"')
	dst = append(dst, t...)
	return append(dst, '"')
}

func appendBool(dst []byte, key string, b bool) []byte {
	return strconv.AppendBool(append(dst, key...), b)
}

func appendInt(dst []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(dst, key...), n, 10)
}

func appendIntOrNull(dst []byte, key string, n *int64) []byte {
	if n == nil {
		return appendNull(append(dst, key...))
	}
	return appendInt(dst, key, *n)
}

func appendTags(dst []byte, tags []string) []byte {
	dst = append(dst, `,"tag":[`...)
	for i, tag := range tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, tag)
	}
	return append(dst, ']')
}

func appendNull(dst []byte) []byte { return append(dst, "null"...) }

// appendObject appends null, or *v as item does.
func appendObject[T any](dst []byte, key string, v *T, item func(*T, []byte) []byte) []byte {
	dst = append(dst, key...)
	if v == nil {
		return appendNull(dst)
	}
	return item(v, dst)
}

// appendArray appends all of list as item does.
func appendArray[T any](dst []byte, list []T, item func(*T, []byte) []byte) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item(&list[i], dst)
	}
	return append(dst, ']')
}
