package operator

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/shape"
)

// A list is one list of a document: a document that is an array is one list, the catalogue has three.
type list struct {
	name  string // of the field in the catalogue, of the resource otherwise
	items []jsontext.Value
}

// listsOf splits a document, as it is served, into its lists. The items share the memory of body.
func listsOf(r shape.Resource, body []byte) ([]list, error) {
	if r != shape.Catalogue {
		items, err := elements(body)
		return []list{{string(r), items}}, err
	}
	fields, err := fieldsOf(body)
	if err != nil {
		return nil, err
	}
	lists := make([]list, 0, len(fields))
	for _, f := range fields {
		items, err := elements(f.value)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list{f.name, items})
	}
	return lists, nil
}

// elements are the values in an array.
func elements(array jsontext.Value) ([]jsontext.Value, error) {
	var items []jsontext.Value
	err := walk(array, '[', func(d *jsontext.Decoder) error {
		v, err := next(d, array)
		items = append(items, v)
		return err
	})
	return items, err
}

// A field is one of an object.
type field struct {
	name  string
	value jsontext.Value
}

// fieldsOf are those of an object, in its order.
func fieldsOf(object jsontext.Value) ([]field, error) {
	var fields []field
	err := walk(object, '{', func(d *jsontext.Decoder) error {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		f := field{name: name.String()}
		f.value, err = next(d, object)
		fields = append(fields, f)
		return err
	})
	return fields, err
}

// walk calls read for each element until the array or object ends.
func walk(v jsontext.Value, kind jsontext.Kind, read func(*jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	begin, err := d.ReadToken()
	if err != nil {
		return err
	}
	if begin.Kind() != kind {
		return fmt.Errorf("want %s, got %s", kind, begin.Kind())
	}
	for d.PeekKind() != kind+2 { // ] and } are two after [ and {
		if err := read(d); err != nil {
			return err
		}
	}
	return nil
}

// next is the next value, as a slice of what is being decoded.
func next(d *jsontext.Decoder, whole jsontext.Value) (jsontext.Value, error) {
	if d.PeekKind() == 0 {
		_, err := d.ReadToken()
		return nil, err
	}
	v, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(d.InputOffset())
	return whole[end-len(v) : end : end], nil
}

// maxText is how many characters of a text a table shows.
const maxText = 90

// text is a value in a cell of a table: the value itself, or what tells a person which object it is.
func text(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return string(v)
		}
		return string(s)
	case 'n':
		return ""
	case '[':
		items, err := elements(v)
		if err != nil {
			return string(v)
		}
		parts := make([]string, 0, len(items))
		for _, item := range items {
			parts = append(parts, text(item))
		}
		return strings.Join(parts, ", ")
	case '{':
		return nameOf(v)
	}
	return string(v)
}

// nameOf is the first of an object's fields that people know it by.
func nameOf(object jsontext.Value) string {
	fields, err := fieldsOf(object)
	if err != nil {
		return string(object)
	}
	for _, name := range []string{"title", "name", "street", "id"} {
		for _, f := range fields {
			if f.name == name && text(f.value) != "" {
				return text(f.value)
			}
		}
	}
	return "{…}"
}

// shorten cuts a text for a table.
func shorten(s string) string {
	if runes := []rune(s); len(runes) > maxText {
		return strings.TrimSpace(string(runes[:maxText])) + "…"
	}
	return s
}

// holds says whether one of the values in v, however deep, has the lower-case words in it.
func holds(v jsontext.Value, words string) bool {
	switch v.Kind() {
	case '[':
		items, err := elements(v)
		return err == nil && slices.ContainsFunc(items, func(item jsontext.Value) bool { return holds(item, words) })
	case '{':
		fields, err := fieldsOf(v)
		return err == nil && slices.ContainsFunc(fields, func(f field) bool { return holds(f.value, words) })
	}
	return strings.Contains(strings.ToLower(text(v)), words)
}

// compareValues orders numbers by value, texts without regard to case, and what is missing first.
func compareValues(a, b jsontext.Value) int {
	if a.Kind() == '0' && b.Kind() == '0' {
		x, errX := strconv.ParseFloat(string(a), 64)
		y, errY := strconv.ParseFloat(string(b), 64)
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
	}
	return strings.Compare(strings.ToLower(text(a)), strings.ToLower(text(b)))
}

// valueOf is the field of that name, nil if there is none.
func valueOf(fields []field, name string) jsontext.Value {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// A query says which rows of a list are wanted.
type query struct {
	Search string
	Sort   string // a field, with a leading - for descending; empty is the document's order
	Page   int    // from 1
}

// pageRows is how many rows a page of a table has.
const pageRows = 50

// A table is a page of a list.
type table struct {
	Columns []string
	Rows    []row
	Found   int // in all pages
	All     int
	Page    int
	Pages   int
}

// A row is an item.
type row struct {
	ID    string
	Cells []string
}

// tableOf finds, sorts and cuts.
func tableOf(l list, q query) (table, error) {
	type item struct {
		fields []field
	}
	t := table{All: len(l.items)}
	words := strings.ToLower(strings.TrimSpace(q.Search))
	var found []item
	for _, v := range l.items {
		fields, err := fieldsOf(v)
		if err != nil {
			return t, err
		}
		if t.Columns == nil {
			for _, f := range fields {
				t.Columns = append(t.Columns, f.name)
			}
		}
		if words == "" || holds(v, words) {
			found = append(found, item{fields})
		}
	}
	if column, descending := strings.CutPrefix(q.Sort, "-"); slices.Contains(t.Columns, column) {
		slices.SortStableFunc(found, func(a, b item) int {
			c := compareValues(valueOf(a.fields, column), valueOf(b.fields, column))
			if descending {
				return -c
			}
			return c
		})
	}
	t.Found = len(found)
	t.Pages = max(1, (len(found)+pageRows-1)/pageRows)
	t.Page = min(max(1, q.Page), t.Pages)
	for _, i := range found[(t.Page-1)*pageRows : min(t.Page*pageRows, len(found))] {
		r := row{ID: text(valueOf(i.fields, "id"))}
		for _, column := range t.Columns {
			r.Cells = append(r.Cells, shorten(text(valueOf(i.fields, column))))
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

// withID are the items of a list that have the id: one, unless the CMS sent it twice.
func withID(l list, id string) ([]jsontext.Value, error) {
	var found []jsontext.Value
	for _, v := range l.items {
		fields, err := fieldsOf(v)
		if err != nil {
			return nil, err
		}
		if text(valueOf(fields, "id")) == id {
			found = append(found, v)
		}
	}
	return found, nil
}
