package proxy

import "bytes"

// A query is what the resources look at in a query string. Everything else in it is skipped at no cost.
// The values are still percent-encoded and are slices of the request.
type query struct {
	format, ordering []byte
}

// parseQuery reads a query string as Django's QueryDict does: parameters are separated by & alone, the last of a
// repeated one counts even if it is empty, + is a blank, and a percent sign that no two hexadecimal digits follow
// is itself.
func parseQuery(raw []byte) (q query) {
	for len(raw) > 0 {
		var name, value []byte
		name, raw = cut(raw, '&')
		name, value = cut(name, '=')
		switch {
		case decodesTo(name, "format"):
			q.format = value
		case decodesTo(name, "ordering"):
			q.ordering = value
		}
	}
	return q
}

// cut is bytes.Cut around a single byte.
func cut(s []byte, sep byte) (before, after []byte) {
	if i := bytes.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, nil
}

// decodesTo reports whether encoded is a spelling of want.
func decodesTo(encoded []byte, want string) bool {
	for i := range len(want) {
		if len(encoded) == 0 {
			return false
		}
		c, width := decodeByte(encoded)
		if c != want[i] {
			return false
		}
		encoded = encoded[width:]
	}
	return len(encoded) == 0
}

// appendDecoded appends what encoded stands for.
func appendDecoded(dst, encoded []byte) []byte {
	for len(encoded) > 0 {
		c, width := decodeByte(encoded)
		dst = append(dst, c)
		encoded = encoded[width:]
	}
	return dst
}

// decodeByte returns the first byte that s, which is not empty, stands for, and how much of s says so.
func decodeByte(s []byte) (c byte, width int) {
	switch s[0] {
	case '+':
		return ' ', 1
	case '%':
		if len(s) >= 3 {
			hi, ok1 := unhex(s[1])
			lo, ok2 := unhex(s[2])
			if ok1 && ok2 {
				return hi<<4 | lo, 3
			}
		}
	}
	return s[0], 1
}

func unhex(c byte) (nibble byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// A format is a value of the query parameter of that name.
type format uint8

const (
	formatDefault format = iota // absent, empty or json
	formatAPI                   // the browsable rendering: JSON, indented
	formatUnknown
)

// parseFormat reads the encoded value of the parameter. Case matters.
func parseFormat(encoded []byte) format {
	switch {
	case len(encoded) == 0, decodesTo(encoded, "json"):
		return formatDefault
	case decodesTo(encoded, "api"):
		return formatAPI
	}
	return formatUnknown
}
