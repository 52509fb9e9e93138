package shape

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// walk reads a document that [Normalize] wrote. It calls item where each item of its lists begins,
// with the number of the list in the documented order, and item reads it. Of anything else it reads
// as much as it can, and returns an error for what is no JSON.
func (r Resource) walk(doc []byte, item func(list int, d *jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	lists := r.row().lists
	if len(lists) == 0 {
		return elements(d, func() error { return item(0, d) })
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if i := slices.Index(lists, name.String()); i < 0 {
			err = d.SkipValue()
		} else {
			err = elements(d, func() error { return item(i, d) })
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// elements reads a list, with item for each element.
func elements(d *jsontext.Decoder, item func() error) error {
	if d.PeekKind() != '[' {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := item(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// An entry is an item of a list: its id, and its place in the document.
type entry struct {
	id       int64
	from, to int
}

// entries returns the items of each list of a document, as far as they are objects.
func entries(r Resource, doc []byte) [][]entry {
	lists := make([][]entry, len(r.row().parts()))
	_ = r.walk(doc, func(list int, d *jsontext.Decoder) error {
		raw, err := d.ReadValue()
		if raw.Kind() == '{' {
			to := int(d.InputOffset())
			id, _ := idOf(raw)
			lists[list] = append(lists[list], entry{id, to - len(raw), to})
		}
		return err
	})
	return lists
}

// FirstItems returns the first item of each list of a document, by the list's path.
func FirstItems(r Resource, doc []byte) map[string]json.RawMessage {
	first, parts := make(map[string]json.RawMessage), r.row().parts()
	_ = r.walk(doc, func(list int, d *jsontext.Decoder) error { // Normalize reports what is wrong with it
		raw, err := d.ReadValue()
		if path := parts[list].path; err == nil && first[path] == nil {
			first[path] = json.RawMessage(raw.Clone())
		}
		return err
	})
	return first
}

// idOf is the id of an item that begins here, which is its first field.
func idOf(item []byte) (int64, error) {
	digits, _ := bytes.CutPrefix(item, []byte(`{"id":`))
	return strconv.ParseInt(string(digits[:max(bytes.IndexAny(digits, ",}"), 0)]), 10, 64)
}
