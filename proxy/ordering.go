package proxy

import (
	"bytes"
	"slices"
	"unicode"

	"vitrine/upstream/shape"
)

// orderingFields are the fields of a banner in the documented order (docs/interface.md, section 2.12).
var orderingFields = shape.BannerFields()

// An ordering is what a value of the ordering parameter comes to: known fields, each at most once, the first the most
// significant. It is comparable, and spellings that order alike through unknown, repeated or blank terms are equal.
// The zero value is the CMS's order.
type ordering struct {
	n     uint8
	terms [shape.BannerFieldCount]orderingTerm
}

// An orderingTerm is an index into orderingFields, times two, plus one for descending.
type orderingTerm uint8

func (t orderingTerm) compare(a, b *shape.Banner) int {
	c := a.Compare(b, int(t/2))
	if t%2 == 1 {
		return -c
	}
	return c
}

// parseOrdering reads the encoded value of the ordering parameter as Django REST Framework's OrderingFilter does:
// terms are separated by commas and stripped of Unicode blanks, those that are not the name of a field, or a minus
// sign and the name of a field, are dropped, and of a field that occurs twice the first occurrence counts.
func parseOrdering(encoded []byte) (o ordering) {
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
		i := indexOfField(term)
		if i < 0 || seen[i] {
			continue
		}
		seen[i] = true
		t := orderingTerm(2 * i) //nolint:gosec // i is below 15
		if descending {
			t++
		}
		o.terms[o.n] = t
		o.n++
	}
	return o
}

func indexOfField(name []byte) int {
	for i := range orderingFields {
		if orderingFields[i] == string(name) {
			return i
		}
	}
	return -1
}

// apply returns the banners in this ordering. Banners with equal keys keep their order, descending ones too.
func (o *ordering) apply(banners []shape.Banner) []shape.Banner {
	sorted := slices.Clone(banners)
	terms := o.terms[:o.n]
	slices.SortStableFunc(sorted, func(a, b shape.Banner) int {
		for _, t := range terms {
			if c := t.compare(&a, &b); c != 0 {
				return c
			}
		}
		return 0
	})
	return sorted
}

// isBlank is Python's str.isspace for one character: Unicode's blanks and the four separators of ASCII.
func isBlank(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' }
