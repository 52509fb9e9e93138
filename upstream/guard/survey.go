// Package guard decides whether a document may replace another one. It knows surveys, which package
// shape makes while it reads a document, and neither JSON nor Redis.
//
//  1. [Judge] compares two surveys by one table, and returns findings;
//  2. findings that hold a document back become a [Hold], which has a clock and travels from the lock
//     record to the status page as it is; the others are content warnings.
package guard

import (
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// A Survey counts a document, list by list, in the documented order.
type Survey []List

// List counts one list of a document.
type List struct {
	Path string // "catalogue.artwork", "banners"
	// Permanent says that a list that has items is never meant to be empty, which banners may be.
	Permanent bool
	Received  int     // items that the CMS sent for it, before they were mapped
	Items     int     // items of the document
	IDs       []int64 // distinct, ascending
	Fields    []Field // of its items, and of what they refer to
	With      []int   // for each field, the items in which it has content, or is true
}

// Field is something that an item may have.
type Field struct {
	Name string // title_en, address.city
	Kind FieldKind
}

// FieldKind is what a field is for the guard.
type FieldKind int

// The kinds of fields.
const (
	Text     FieldKind = iota // or a list of texts
	Relation                  // an object, or a list of objects
	Flag                      // a boolean
	Foreign                   // a link that begins with the code of another language
)

// Empty returns the texts and relations that no item has, but not those below such a relation.
func (l *List) Empty() (texts, relations []string) {
	for i, f := range l.Fields {
		switch parent := parentOf(f.Name); {
		case l.With[i] > 0 || slices.Contains(relations, parent):
		case f.Kind == Relation:
			relations = append(relations, f.Name)
		case f.Kind == Text && (parent == "" || l.With[l.index(parent)] > 0):
			texts = append(texts, f.Name)
		}
	}
	return texts, relations
}

func (l *List) index(field string) int {
	return slices.IndexFunc(l.Fields, func(f Field) bool { return f.Name == field })
}

// parentOf is the relation that a field is below, or "".
func parentOf(field string) string { return field[:max(strings.LastIndexByte(field, '.'), 0)] }

// nameOf is a list's own name: artwork.
func nameOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// Noun is what n items of a list are called: artwork, galleries, rule sets, banners.
func Noun(list string, n int) string {
	noun := strings.TrimSuffix(nameOf(list), "s")
	if noun == "rule" {
		noun = "rule set"
	}
	return english.PluralWord(n, noun, "")
}
