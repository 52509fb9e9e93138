// Package shape defines the documents that vitrine serves, and normalizes a CMS's JSON into them.
// Section numbers in it are those of docs/interface.md.
//
// One call of [Normalize] reads the CMS's bytes once, from front to back:
//
//  1. a pull decoder reads each value straight into the documented types, and always knows its JSON
//     path (banners[3].id);
//  2. a value that is not as documented but means only one thing (null for a text without content,
//     digits in a string, another UTC offset) is repaired, and the repair counted by kind and path;
//  3. for any other value the whole document is refused with a [RefusedError] that says where, what
//     was wanted and what was found;
//  4. the types are appended to one slice of bytes: fields in the documented order, compact,
//     escaped as in Django REST Framework.
//
// The package does no I/O and keeps nothing between calls.
package shape

import (
	"fmt"
	"slices"
)

// List is one of the lists that a document consists of.
type List struct {
	Path  string // "catalogue.gallery", "banners"
	Items int
}

// Document is a resource as it is served.
type Document struct {
	Body    []byte  // compact JSON in UTF-8, as documented
	Items   int     // elements of the array; for a catalogue, of its three lists together
	Lists   []List  // the same by list, in the documented order
	Repairs Repairs // what had to be changed
	// Unrelated is how many related objects and lists did not come, and where the first few belong:
	// null or an empty list stand for them, which may be what the CMS means or a relation that was
	// not expanded.
	Unrelated      int
	UnrelatedPaths []string
}

// Normalize decodes a CMS's JSON for r and encodes it as documented. It does not modify in and
// keeps no reference to it. A document that cannot be repaired is a *[RefusedError]; the only other
// error is an unknown resource.
func Normalize(r Resource, in []byte) (Document, error) {
	if !r.Valid() {
		return Document{}, fmt.Errorf("normalize: no resource %q", r)
	}
	d := newDecoder(r, in)
	var doc Document
	var err error
	switch r {
	case Catalogue:
		var s Summary
		err = d.document(func() error { return readSummary(d, &s) })
		doc.Lists = []List{
			{Path: "catalogue.artist", Items: len(s.Artist)},
			{Path: "catalogue.artwork", Items: len(s.Artwork)},
			{Path: "catalogue.gallery", Items: len(s.Gallery)},
		}
		if err == nil {
			doc.Body = summaries.append(room(in), &s)
		}
	case Rules:
		doc, err = normalizeList(d, ruleSets)
	case Banners:
		doc, err = normalizeList(d, banners)
	}
	if err != nil {
		return Document{}, err
	}
	for _, l := range doc.Lists {
		doc.Items += l.Items
	}
	doc.Body = fitted(doc.Body)
	doc.Repairs = d.repairs
	doc.Unrelated, doc.UnrelatedPaths = d.lacking.count, d.lacking.paths
	return doc, nil
}

// normalizeList normalizes a document that is one list.
func normalizeList[T any](d *decoder, t *table[T]) (Document, error) {
	var items []T
	if err := d.document(func() error { return array(d, &items, t.read) }); err != nil {
		return Document{}, err
	}
	return Document{
		Body:  t.appendList(room(d.in), items),
		Lists: []List{{Path: string(d.root), Items: len(items)}},
	}, nil
}

// room returns the slice to append a normalized document to. An eighth more than the input leaves
// room for the microseconds that a CMS omits from timestamps.
func room(in []byte) []byte { return make([]byte, 0, len(in)+len(in)/8+64) }

// fitted returns body without much unused capacity, since a document is held for long: an indented
// one shrinks to half when compacted.
func fitted(body []byte) []byte {
	if cap(body)-len(body) <= len(body)/4 {
		return body
	}
	return slices.Clone(body)
}

// Types describes all documented types, in the order of docs/interface.md.
func Types() []Type {
	return []Type{
		summaries.describe(), artists.describe(), galleryRefs.describe(), artworks.describe(),
		galleries.describe(), addresses.describe(), cities.describe(), countries.describe(),
		ruleSets.describe(), pageRules.describe(), pages.describe(), banners.describe(),
	}
}
