package shape

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Banner is an element of the banners document (docs/interface.md, section 2.12), to be put in
// another order.
type Banner struct {
	ID   int64
	JSON []byte // as it stands in the document
	keys [BannerFieldCount][]byte
}

// BannerFieldCount is the number of fields of a banner.
const BannerFieldCount = 15

// BannerFields returns the names of a banner's fields in the documented order. Any of them can be
// ordered by.
func BannerFields() (names []string) {
	for _, f := range banner.fields {
		names = append(names, f.Name)
	}
	return names
}

// Banners takes a banners document apart. They share the memory of its body.
func (doc Document) Banners() []Banner {
	all, d := make([]Banner, 0, doc.Items), new(jsontext.Decoder)
	for _, one := range elements(doc.Body) {
		b, n := Banner{ID: one.id, JSON: one.json}, 0
		for _, value := range members(d, one.json) {
			switch {
			case value[0] != '"':
				b.keys[n] = value
			case bytes.IndexByte(value, '\\') < 0:
				b.keys[n] = value[1 : len(value)-1]
			default:
				b.keys[n], _ = jsontext.AppendUnquote(nil, value)
			}
			n++
		}
		all = append(all, b)
	}
	return all
}

// Compare orders b and other by the field that is at index i of [BannerFields]: text and timestamps
// by code point, false before true, numbers by value.
func (b *Banner) Compare(other *Banner, i int) int {
	if banner.fields[i].Type == "integer" { // the id
		return cmp.Compare(b.ID, other.ID)
	}
	return bytes.Compare(b.keys[i], other.keys[i])
}

// Indent appends compact, a document of this package, to dst as Python's json.dumps(indent=n)
// writes it, with ": " after keys, which is what Django REST Framework answers to Accept:
// application/json; indent=n. Empty lists and objects stay [] and {}. With n of 0 or less, compact
// is appended unchanged.
func Indent(dst, compact []byte, n int) []byte {
	if n <= 0 {
		return append(dst, compact...)
	}
	dst, _ = jsontext.AppendFormat(dst, compact, jsontext.Multiline(true), jsontext.WithIndent(strings.Repeat(" ", n)),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)) // valid: Normalize wrote it
	return dst
}
