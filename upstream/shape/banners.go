package shape

import (
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
	text := string(doc.Body)
	all := make([]Banner, doc.Items)
	at := 1 // after the opening bracket
	for i := range all {
		b, from := &all[i], at
		for j, f := range banner.fields {
			at += 1 + len(f.key) // with the brace or comma before it
			end := at + strings.IndexAny(text[at:], ",}")
			if text[at] != '"' {
				b.keys[j] = text[at:end]
			} else if end = endOfString(doc.Body, at); !strings.Contains(text[at:end], `\`) {
				b.keys[j] = text[at+1 : end-1]
			} else {
				unquoted, _ := jsontext.AppendUnquote(nil, doc.Body[at:end]) // Normalize wrote it
				b.keys[j] = string(unquoted)
			}
			at = end
		}
		b.ID, _ = strconv.ParseInt(b.keys[0], 10, 64) // Normalize wrote it
		b.JSON = doc.Body[from : at+1]
		at += 2 // the brace, and the comma or bracket
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

// endOfString returns the index after the string that begins at i.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}
