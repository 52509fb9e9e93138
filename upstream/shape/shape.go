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
	"cmp"
	"fmt"
	"slices"
	"strings"

	"vitrine/upstream/guard"
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

// A document is a row of the table: everything that makes a resource what it is. The other packages
// read it, so that a further document is a row here, a type in schema.go, and little else.
type document struct {
	name     Resource
	route    string
	title    string // what Django REST Framework calls its view
	about    string
	read     reader
	lists    []string // its members, if it is an object of lists; otherwise it is a list
	sortable bool     // by the fields of its items, which are banners
	of       *table   // the object, or an item of the list
	lasting  bool     // a list of it that had items is never meant to be empty
}

// documents is the table, in the order of the interface document.
var documents = [...]document{
	{
		name: Catalogue, route: "/gvapp/", title: "Catalogue Summary List", about: "Artists, artworks and galleries.",
		read: summary.read, lists: []string{"artist", "artwork", "gallery"}, of: summary, lasting: true,
	},
	{name: Rules, route: "/cms/rules/", title: "Rule Set List", about: "Display rules.", read: array(ruleSet.read), of: ruleSet, lasting: true},
	{name: Banners, route: "/gvapp/singlebanner", title: "Single Banner List", read: array(banner.read), sortable: true, of: banner},
}

// A part is one of the lists that a document consists of.
type part struct {
	name, path string // artwork, catalogue.artwork
	of         *table // of its items
}

// parts are the lists, in the documented order.
func (d *document) parts() (all []part) {
	for i, list := range d.lists {
		all = append(all, part{list, string(d.name) + "." + list, tableNamed(d.of.fields[i].Type)})
	}
	if len(d.lists) == 0 {
		all = []part{{string(d.name), string(d.name), d.of}}
	}
	return all
}

// Count is the number of resources.
const Count = len(documents)

// Resources returns all resources: catalogue, rules, banners.
func Resources() (all []Resource) {
	for _, d := range documents {
		all = append(all, d.name)
	}
	return all
}

// row is the resource's row of the table, or an empty one.
func (r Resource) row() *document {
	if i := slices.Index(Resources(), r); i >= 0 {
		return &documents[i]
	}
	return new(document)
}

// Route is the public path of the resource, or "" if there is none.
func (r Resource) Route() string { return r.row().route }

// Lists returns the names of the lists in a document that is an object, in the documented order;
// none for one that is a list itself.
func (r Resource) Lists() []string { return slices.Clone(r.row().lists) }

// Sortable reports whether the items of the document can be ordered by the [BannerFields].
func (r Resource) Sortable() bool { return r.row().sortable }

// Describe returns the title of the resource and a sentence about it, which may be empty.
func (r Resource) Describe() (title, about string) { return r.row().title, r.row().about }

// Valid reports whether r is one of [Resources].
func (r Resource) Valid() bool { return slices.Contains(Resources(), r) }

// Document is a resource as it is served.
type Document struct {
	Body    []byte // compact JSON in UTF-8, as documented
	Items   int    // elements of the array; for a catalogue, of its three lists together
	Survey  guard.Survey
	Repairs Repairs // what had to be changed
	// Unrelated are related objects and lists that did not come: null or an empty list stand for them,
	// which may be what the CMS means or a relation that was not expanded.
	Unrelated Repair
	// Dangling are the places in lists of related objects that were null: an item that the CMS did not
	// send. They are left out.
	Dangling Repair
}

// Options are what a document must be besides its shape.
type Options struct {
	// Expanded is for a CMS that sends null or an empty list for a relation without content: one
	// that is missing, or an id instead of an object, is refused.
	Expanded bool
	// MaxBytes is the largest document, as it is written. Zero means eight times what is read and a
	// MiB.
	MaxBytes int
}

// Normalize decodes a CMS's JSON for r and encodes it as documented. It does not modify in and
// keeps no reference to it. A document that cannot be repaired is a *[RefusedError]; the only other
// error is an unknown resource.
func Normalize(r Resource, in []byte) (Document, error) { return Read(r, in, Options{}) }

// Read is Normalize with options.
func Read(r Resource, in []byte, o Options) (Document, error) {
	row := r.row()
	if row.read == nil {
		return Document{}, fmt.Errorf("normalize: no resource %q", r)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, 8*len(in)+1<<20)
	d := newDecoder(string(r), in, o.MaxBytes, o.Expanded)
	body, err := row.read(d, d.begin())
	if err == nil {
		_, err = d.room(body)
	}
	if err != nil {
		// Of a repeated field the last value counts, also if an earlier one would be refused.
		if last, ok := lastValues(r, in, o); ok {
			if doc, failed := Read(r, last, o); failed == nil {
				return doc, nil
			}
		}
		return Document{}, err
	}
	if err := Ended(string(r), d.in, d.json.InputOffset()); err != nil {
		return Document{}, err
	}
	doc := Document{Repairs: d.repairs.repairs(), Unrelated: d.lacking, Dangling: d.dangling}
	// A document is held for long: an indented one shrinks to half when compacted.
	if doc.Body = body; cap(body)-len(body) > len(body)/4 {
		doc.Body = slices.Clone(body)
	}
	for _, part := range row.parts() {
		list := cmp.Or(d.lists[part.path], new(tally))
		doc.Survey, doc.Items = append(doc.Survey, list.survey(part, row.lasting)), doc.Items+list.items
	}
	// An object that has other fields but none of the lists is something else, an error in JSON for
	// one, and not an empty document.
	if lists := row.lists; len(lists) > 0 && doc.Items == 0 && doc.Repairs.Of(KindUnknown).Count > 0 && doc.Repairs.Of(KindMissing).Count >= len(lists) {
		last := len(lists) - 1
		want := "an object with " + strings.Join(lists[:last], ", ") + " and " + lists[last]
		return Document{}, &RefusedError{Path: string(r), Want: want, Got: "one with other fields only"}
	}
	return doc, nil
}

// lastValues is a document without all but the last value of each repeated field, if it has any.
func lastValues(r Resource, in []byte, o Options) (last []byte, ok bool) {
	d := newDecoder(string(r), in, o.MaxBytes, o.Expanded)
	last, err := d.asIs(d.begin())
	return last, err == nil && d.repairs.of(KindDuplicate).Count > 0
}
