package proxy

import (
	"bytes"
	"cmp"
	"slices"
	"unicode"

	"vitrine/upstream/shape"
)

// orderingField is a field that banners can be ordered by.
type orderingField struct {
	name    string
	compare func(a, b *shape.Banner) int
}

// orderingFields are the fields of a banner in the documented order (docs/interface.md, section 2.12).
// Text is compared bytewise, which in UTF-8 is by code point; a normalized timestamp sorts as text.
var orderingFields = [...]orderingField{
	{"id", func(a, b *shape.Banner) int { return cmp.Compare(a.ID, b.ID) }},
	{"title_en", func(a, b *shape.Banner) int { return cmp.Compare(a.TitleEN, b.TitleEN) }},
	{"title_nl", func(a, b *shape.Banner) int { return cmp.Compare(a.TitleNL, b.TitleNL) }},
	{"title_fr", func(a, b *shape.Banner) int { return cmp.Compare(a.TitleFR, b.TitleFR) }},
	{"button_text_en", func(a, b *shape.Banner) int { return cmp.Compare(a.ButtonTextEN, b.ButtonTextEN) }},
	{"button_text_nl", func(a, b *shape.Banner) int { return cmp.Compare(a.ButtonTextNL, b.ButtonTextNL) }},
	{"button_text_fr", func(a, b *shape.Banner) int { return cmp.Compare(a.ButtonTextFR, b.ButtonTextFR) }},
	{"redirect_link_en", func(a, b *shape.Banner) int { return cmp.Compare(a.RedirectLinkEN, b.RedirectLinkEN) }},
	{"redirect_link_nl", func(a, b *shape.Banner) int { return cmp.Compare(a.RedirectLinkNL, b.RedirectLinkNL) }},
	{"redirect_link_fr", func(a, b *shape.Banner) int { return cmp.Compare(a.RedirectLinkFR, b.RedirectLinkFR) }},
	{"language_en", func(a, b *shape.Banner) int { return compareBool(a.LanguageEN, b.LanguageEN) }},
	{"language_nl", func(a, b *shape.Banner) int { return compareBool(a.LanguageNL, b.LanguageNL) }},
	{"language_fr", func(a, b *shape.Banner) int { return compareBool(a.LanguageFR, b.LanguageFR) }},
	{"created_at", func(a, b *shape.Banner) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) }},
	{"updated_at", func(a, b *shape.Banner) int { return cmp.Compare(a.UpdatedAt, b.UpdatedAt) }},
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// An ordering is what a value of the ordering parameter comes to: known fields, each at most once, the first the most
// significant. It is comparable, and spellings that order alike through unknown, repeated or blank terms are equal.
// The zero value is the CMS's order.
type ordering struct {
	n     uint8
	terms [len(orderingFields)]orderingTerm
}

// An orderingTerm is an index into orderingFields, times two, plus one for descending.
type orderingTerm uint8

func (t orderingTerm) compare(a, b *shape.Banner) int {
	c := orderingFields[t/2].compare(a, b)
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
	var seen [len(orderingFields)]bool
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
		if orderingFields[i].name == string(name) {
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
