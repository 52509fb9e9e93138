package negotiate

import (
	"bytes"
	"slices"
	"unicode"

	"vitrine/upstream/shape"
)

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
