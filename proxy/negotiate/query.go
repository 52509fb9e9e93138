package negotiate

import "encoding/hex"

// A Query has the parameters that the resources use; all others are ignored. The values are still
// percent-encoded and are slices of the request.
type Query struct {
	Format, Ordering []byte
}

// ParseQuery reads a query string as Django's QueryDict does: parameters are separated by & alone,
// the last of a repeated one counts even if it is empty, + is a space, and a percent sign without
// two hexadecimal digits is literal.
func ParseQuery(raw []byte) (q Query) {
	for len(raw) > 0 {
		var name, value []byte
		name, raw = cut(raw, '&')
		name, value = cut(name, '=')
		switch {
		case decodesTo(name, "format"):
			q.Format = value
		case decodesTo(name, "ordering"):
			q.Ordering = value
		}
	}
	return q
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

// appendDecoded appends the decoded form of encoded, in which + is a space.
func appendDecoded(dst, encoded []byte) []byte {
	for len(encoded) > 0 {
		c, width := decodeByte(encoded)
		dst = append(dst, c)
		encoded = encoded[width:]
	}
	return dst
}

// decodeByte returns the first decoded byte of s, which is not empty, and the length of its
// encoding.
func decodeByte(s []byte) (c byte, width int) {
	switch s[0] {
	case '+':
		return ' ', 1
	case '%':
		var decoded [1]byte
		if len(s) >= 3 {
			if _, err := hex.Decode(decoded[:], s[1:3]); err == nil {
				return decoded[0], 3
			}
		}
	}
	return s[0], 1
}

// A Format is a value of the query parameter of that name.
type Format uint8

// The formats.
const (
	FormatDefault Format = iota // absent, empty or json
	FormatAPI                   // the browsable rendering: JSON, indented
	FormatUnknown
)

// ParseFormat reads the encoded value of the parameter. Case matters.
func ParseFormat(encoded []byte) Format {
	switch {
	case len(encoded) == 0, decodesTo(encoded, "json"):
		return FormatDefault
	case decodesTo(encoded, "api"):
		return FormatAPI
	}
	return FormatUnknown
}
