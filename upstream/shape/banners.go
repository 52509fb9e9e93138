package shape

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Banner is an element of the banners document (docs/interface.md, section 2.12), to be put in
// another order.
type Banner struct {
	ID   int64
	JSON []byte // as it stands in the document
	keys [BannerFieldCount]string
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
	text, all := string(doc.Body), make([]Banner, doc.Items)
	d := jsontext.NewDecoder(bytes.NewBuffer(doc.Body), jsontext.AllowDuplicateNames(true)) // whose errors Normalize has seen
	_, _ = d.ReadToken()
	for i := range all {
		b := &all[i]
		_, _ = d.ReadToken()
		from := d.InputOffset() - 1
		for j := range banner.fields {
			_, _ = d.ReadToken()
			raw, _ := d.ReadValue()
			end := int(d.InputOffset())
			switch {
			case raw[0] != '"':
				b.keys[j] = text[end-len(raw) : end]
			case bytes.IndexByte(raw, '\\') < 0:
				b.keys[j] = text[end-len(raw)+1 : end-1]
			default:
				unquoted, _ := jsontext.AppendUnquote(nil, raw)
				b.keys[j] = string(unquoted)
			}
		}
		_, _ = d.ReadToken()
		b.ID, _ = strconv.ParseInt(b.keys[0], 10, 64)
		b.JSON = doc.Body[from:d.InputOffset()]
	}
	return all
}

// Compare orders b and other by the field that is at index i of [BannerFields]: text and timestamps
// by code point, false before true, numbers by value.
func (b *Banner) Compare(other *Banner, i int) int {
	if banner.fields[i].Type == "integer" { // the id
		return cmp.Compare(b.ID, other.ID)
	}
	return strings.Compare(b.keys[i], other.keys[i])
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
