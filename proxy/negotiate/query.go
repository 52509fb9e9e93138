package negotiate

import (
	"bytes"
	"encoding/hex"
	"slices"
	"unicode"

	"vitrine/upstream/shape"
)

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

// orderingFields are the names of the fields that banners can be ordered by.
var orderingFields = shape.BannerFields()

// An Ordering is the meaning of a value of the ordering parameter: known fields, each at most once,
// the first the most significant. It is comparable, and spellings that differ only in unknown,
// repeated or blank terms are equal. The zero value is the CMS's order.
type Ordering struct {
	n     uint8
	terms [shape.BannerFieldCount]Term
}

// Terms are the terms, the most significant first.
func (o *Ordering) Terms() []Term { return o.terms[:o.n] }

// A Term is the index among [shape.BannerFields] of a field to order by, and whether the greatest
// comes first.
type Term struct {
	Field      uint8
	Descending bool
}

// ParseOrdering reads the encoded value of the ordering parameter as Django REST Framework's
// OrderingFilter does: terms are separated by commas and stripped of Unicode white space, terms
// other than a field name with an optional minus sign are dropped, and the first occurrence of a
// repeated field counts.
func ParseOrdering(encoded []byte) (o Ordering) {
	var scratch [256]byte // enough for each field once; a longer value costs an allocation
	value := appendDecoded(scratch[:0], encoded)
	var seen [shape.BannerFieldCount]bool
	for len(value) > 0 && int(o.n) < len(o.terms) {
		var term []byte
		term, value = cut(value, ',')
		term = bytes.TrimFunc(term, isBlank)
		descending := len(term) > 0 && term[0] == '-'
		if descending {
			term = term[1:]
		}
		i := slices.IndexFunc(orderingFields, func(name string) bool { return name == string(term) })
		if i < 0 || seen[i] {
			continue
		}
		seen[i] = true
		o.terms[o.n] = Term{uint8(i), descending} //nolint:gosec // i is below shape.BannerFieldCount
		o.n++
	}
	return o
}

// isBlank is Python's str.isspace for one character: Unicode white space and the four separators of
// ASCII.
func isBlank(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' }
