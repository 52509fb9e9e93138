package shape

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/guard"
)

// Field describes a field of a documented type.
type Field struct {
	Name string
	Type string // integer, text, boolean, timestamp, any, or the name of another type
	List bool   // of these
	Null bool   // null is possible
}

// A kind is how the values of a field are read and written: read appends to dst what the next value
// is in the document, or what stands for a missing one.
type kind struct {
	Field   // without its name
	read    reader
	of      *table          // of a relation
	counted bool            // by the survey
	as      guard.FieldKind // what for
}

type reader func(d *decoder, dst []byte) ([]byte, error)

// A field is one row of the table of a documented type. Decoding, encoding, ordering, the survey and
// the OpenAPI schema come from these rows alone.
type field struct {
	kind
	key     []byte // as written: "title":
	bit     int    // what the survey notes of it, among those of its object; for a relation, what is below follows
	foreign string // the beginning of links of this language, in the field of a link: "/nl
}

// A table has the fields of a type in the documented order. There are at most maxFields.
type table struct {
	name   string
	fields []field
	bits   []guard.Field // what the survey notes of an object, at most 64
}

const maxFields = 16

func tableOf(name string, rows ...[]field) *table {
	t := &table{name: name, fields: slices.Concat(rows...)}
	for i := range t.fields {
		f := &t.fields[i]
		if f.bit = len(t.bits); f.counted {
			t.bits = append(t.bits, guard.Field{Name: f.Name, Kind: f.as})
		}
		if f.of != nil {
			for _, below := range f.of.bits {
				t.bits = append(t.bits, guard.Field{Name: f.Name + "." + below.Name, Kind: below.Kind})
			}
		}
		if language, ok := strings.CutPrefix(f.Name, linkPrefix); ok {
			f.foreign = `"/` + language
			t.bits = append(t.bits, guard.Field{Name: f.Name, Kind: guard.Foreign})
		}
	}
	return t
}

// linkPrefix begins the names of the fields that have a link for one language, which begins with
// the code of that language.
const linkPrefix = "redirect_link_"

// named makes fields of a kind.
func (k kind) named(names ...string) (fields []field) {
	for _, name := range names {
		k.Name = name
		fields = append(fields, field{kind: k, key: []byte(`"` + name + `":`)})
	}
	return fields
}

// An extent is the place of a member of an object in what is written, its comma included.
type extent struct{ from, to int }

// read reads an object: its fields in whatever order they come, and then the missing ones. They are
// written as they come, and put in order at the end if they were not. Unknown fields are dropped.
//
// The last of a repeated field counts, as in Python.
func (t *table) read(d *decoder, dst []byte) ([]byte, error) {
	if d.json.PeekKind() != '{' {
		return dst, d.refuse("an object")
	}
	if err := d.step(); err != nil {
		return dst, err
	}
	dst, err := d.room(dst)
	if err != nil {
		return dst, err
	}
	d.path = append(d.path, frame{index: -1})
	at, open := len(d.path)-1, len(dst)
	var (
		places  [maxFields]extent
		has     [maxFields]uint64
		seen    uint32 // a bit for each field
		next    int
		ordered = true
	)
	for d.json.PeekKind() != '}' {
		d.path[at].field = nil
		name, err := d.json.ReadValue()
		if err != nil {
			return dst, d.broken(err)
		}
		i := t.find(next, d.unquote(name))
		if i < 0 {
			if err := d.drop(name); err != nil {
				return dst, err
			}
			continue
		}
		d.path[at].field = t.fields[i].name()
		if seen&(1<<i) != 0 {
			d.note(KindDuplicate)
			delete(d.lists, d.here())
		}
		seen |= 1 << i
		ordered = ordered && i >= next
		next = i + 1
		start := len(dst)
		if dst, err = t.fields[i].append(d, dst); err != nil {
			return dst, err
		}
		places[i], has[i] = extent{start, len(dst)}, t.fields[i].noted(d.has, dst[start:])
	}
	if err := d.step(); err != nil {
		return dst, err
	}
	for i := range t.fields {
		if seen&(1<<i) != 0 {
			continue
		}
		d.path[at].field = t.fields[i].name()
		start := len(dst)
		d.absent = true
		dst, err = t.fields[i].append(d, dst)
		d.absent = false
		if err != nil {
			return dst, err
		}
		places[i] = extent{start, len(dst)}
		ordered = ordered && i >= next
	}
	d.path, d.has = d.path[:at], 0
	for i := range t.fields {
		d.has |= has[i]
	}
	if !ordered {
		dst = d.reorder(dst, open, places[:len(t.fields)])
	}
	dst[open] = '{'
	return append(dst, '}'), nil
}

func (f *field) name() []byte { return f.key[1 : len(f.key)-2] }

// append reads the field and appends it with a comma before it.
func (f *field) append(d *decoder, dst []byte) ([]byte, error) {
	d.has = 0
	return f.read(d, append(append(dst, ','), f.key...))
}

// noted returns the bits of the survey for a field as it was written, with those of what is below.
func (f *field) noted(below uint64, written []byte) (bits uint64) {
	if f.of != nil {
		bits = below << (f.bit + 1)
	}
	switch value := written[len(f.key)+1:]; string(value) {
	case `""`, "[]", "null", "false":
		return bits
	default:
		if f.counted {
			bits |= 1 << f.bit
		}
		if f.foreign != "" && foreign(value, f.foreign) {
			bits |= 2 << f.bit
		}
	}
	return bits
}

// foreign reports whether a link begins with the code of another language than that of own.
func foreign(link []byte, own string) bool {
	rest, ok := bytes.CutPrefix(link, []byte(own[:2]))
	return ok && len(rest) > 2 && (rest[2] == '/' || rest[2] == '"') && string(rest[:2]) != own[2:] &&
		slices.ContainsFunc(banner.fields, func(f field) bool { return f.foreign != "" && f.foreign[2:] == string(rest[:2]) })
}

// reorder replaces everything in dst from open on with the given members.
func (d *decoder) reorder(dst []byte, open int, members []extent) []byte {
	d.scratch = slices.Grow(d.scratch[:0], len(dst)-open)
	for _, m := range members {
		d.scratch = append(d.scratch, dst[m.from:m.to]...)
	}
	return append(dst[:open], d.scratch...)
}

// find returns the index of a field, or -1. Names are mostly in order, so next is tried first.
func (t *table) find(next int, name []byte) int {
	if next < len(t.fields) && string(name) == t.fields[next].Name {
		return next
	}
	for i := range t.fields {
		if string(name) == t.fields[i].Name {
			return i
		}
	}
	return -1
}

// drop skips the value of an unknown field.
func (d *decoder) drop(name jsontext.Value) error {
	at := len(d.path) - 1
	d.path[at].field = d.unquote(name)
	d.note(KindUnknown)
	d.path[at].field = nil
	return d.skip()
}
