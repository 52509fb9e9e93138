// Package shape defines the documents that vitrine serves, and normalizes a CMS's JSON into them.
// Section numbers in it are those of docs/interface.md.
//
// One call of [Normalize] reads the CMS's bytes once, from front to back, and writes the document
// as it goes:
//
//  1. a pull decoder follows the tables of the documented types (schema.go), and always knows its
//     JSON path (banners[3].id);
//  2. a value that is not as documented but means only one thing (null for a text without content,
//     digits in a string, another UTC offset) is repaired, and the repair counted by kind and path;
//  3. for any other value the whole document is refused with a [RefusedError] that says where, what
//     was wanted and what was found;
//  4. fields are written in the documented order, compact, escaped as in Django REST Framework.
//
// The package does no I/O and keeps nothing between calls.
package shape

import (
	"fmt"
	"slices"
)

// Resource names one of the three documents, and is the first part of every JSON path into it.
type Resource string

const (
	// Catalogue is one object, served at /gvapp/ (docs/interface.md, section 2.1).
	Catalogue Resource = "catalogue"
	// Rules is an array of rule sets, served at /cms/rules/ (section 2.9).
	Rules Resource = "rules"
	// Banners is an array of banners, served at /gvapp/singlebanner (section 2.12).
	Banners Resource = "banners"
)

// Resources returns all resources: catalogue, rules, banners.
func Resources() []Resource { return []Resource{Catalogue, Rules, Banners} }

// Valid reports whether r is one of [Resources].
func (r Resource) Valid() bool { return slices.Contains(Resources(), r) }

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
func Normalize(r Resource, in []byte) (Document, error) { return Read(r, in, false) }

// Read is Normalize, and with expanded for a CMS that sends null or an empty list for a relation
// without content: one that is missing, or an id instead of an object, is then refused.
func Read(r Resource, in []byte, expanded bool) (Document, error) {
	if !r.Valid() {
		return Document{}, fmt.Errorf("normalize: no resource %q", r)
	}
	read := map[Resource]reader{Catalogue: summary.read, Rules: array(ruleSet.read), Banners: array(banner.read)}[r]
	d := newDecoder(r, in)
	d.expanded = expanded
	// An eighth more leaves room for the microseconds that a CMS omits from timestamps.
	body, err := read(d, make([]byte, 0, len(in)+len(in)/8+64))
	if err != nil {
		return Document{}, err
	}
	if err := Ended(string(r), d.in, d.json.InputOffset()); err != nil {
		return Document{}, err
	}
	doc := Document{Repairs: d.repairs.repairs(), Unrelated: d.lacking.Count, UnrelatedPaths: d.lacking.Paths}
	// A document is held for long: an indented one shrinks to half when compacted.
	if doc.Body = body; cap(body)-len(body) > len(body)/4 {
		doc.Body = slices.Clone(body)
	}
	paths := []string{string(r)}
	if r == Catalogue {
		paths = []string{"catalogue.artist", "catalogue.artwork", "catalogue.gallery"}
	}
	for _, path := range paths {
		doc.Lists = append(doc.Lists, List{path, d.items[path]})
		doc.Items += d.items[path]
	}
	// An object that has other fields but none of the three lists is something else, an error in
	// JSON for one, and not an empty catalogue.
	if r == Catalogue && doc.Items == 0 && doc.Repairs.Of(KindUnknown).Count > 0 && doc.Repairs.Of(KindMissing).Count >= len(paths) {
		return Document{}, &RefusedError{Path: string(r), Want: "an object with artist, artwork and gallery", Got: "one with other fields only"}
	}
	return doc, nil
}
