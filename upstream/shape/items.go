package shape

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// An item is an element of a list of a document, and shares its memory.
type item struct {
	id   int64 // 0 if it has none
	at   int   // its number in the list
	json jsontext.Value
}

// items returns those of each list of a document that [Normalize] wrote; of anything else, as much as
// can be read.
func items(r Resource, doc []byte) [][]item {
	names := r.row().lists
	if len(names) == 0 {
		return [][]item{elements(doc)}
	}
	all := make([][]item, len(names))
	for name, value := range members(new(jsontext.Decoder), doc) {
		if i := slices.Index(names, name); i >= 0 {
			all[i] = elements(value)
		}
	}
	return all
}

// elements are those of a list.
func elements(list []byte) []item {
	d, all := new(jsontext.Decoder), make([]item, 0, bytes.Count(list, []byte(idKey)))
	if open(d, list, '[') {
		for d.PeekKind() != ']' {
			value, err := next(d, list)
			if err != nil {
				break
			}
			id, _ := idOf(value)
			all = append(all, item{id, len(all), value})
		}
	}
	return all
}

// members iterates over those of an object, with a decoder that can be used again.
func members(d *jsontext.Decoder, object []byte) func(yield func(string, jsontext.Value) bool) {
	return func(yield func(string, jsontext.Value) bool) {
		for more := open(d, object, '{'); more && d.PeekKind() == '"'; {
			name, _ := d.ReadToken()
			field := name.String()
			value, err := next(d, object)
			more = err == nil && yield(field, value)
		}
	}
}

// open begins to read in, and reports whether it begins so.
func open(d *jsontext.Decoder, in []byte, as jsontext.Kind) bool {
	d.Reset(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	t, err := d.ReadToken()
	return err == nil && t.Kind() == as
}

// next returns the next value as it stands in the input.
func next(d *jsontext.Decoder, in []byte) (jsontext.Value, error) {
	raw, err := d.ReadValue()
	end := int(d.InputOffset())
	return in[end-len(raw) : end : end], err
}

// FirstItems returns the first item of each list of a document, by the list's path.
func FirstItems(r Resource, doc []byte) map[string]json.RawMessage {
	first, parts := make(map[string]json.RawMessage), r.row().parts()
	for i, list := range items(r, doc) {
		if len(list) > 0 {
			first[parts[i].path] = json.RawMessage(list[0].json)
		}
	}
	return first
}

// CountItems is how many items the lists of a document have together.
func CountItems(r Resource, doc []byte) (n int) {
	for _, list := range items(r, doc) {
		n += len(list)
	}
	return n
}

// idKey begins an item.
const idKey = `{"id":`

// idOf is the id of an item that begins here, which is its first field.
func idOf(item []byte) (int64, error) {
	digits, _ := bytes.CutPrefix(item, []byte(idKey))
	return strconv.ParseInt(string(digits[:max(bytes.IndexAny(digits, ",}"), 0)]), 10, 64)
}
