package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// maxNumber bounds the digits of a number that programs see.
const maxNumber = 1000

// maxDepth bounds nesting, as in normalizing.
const maxDepth = 64

// The approximate memory of decoded values.
const (
	objectCost  = 320 // a map of up to eight members
	memberCost  = 48
	elementCost = 32
	textCost    = 32 // besides its bytes
)

// Decode reads one JSON value into the types of programs: nil, bool, json.Number, string, []any and
// map[string]any. The last value of a repeated name counts. Its error is a *shape.RefusedError
// whose path begins with root.
func Decode(root string, in []byte) (any, error) { return decode(root, in, nil) }

// decode is Decode within a budget of bytes, which it reduces; nil means none.
func decode(root string, in []byte, budget *int) (any, error) {
	d := newReader(root, in)
	defer d.free()
	d.budget = budget
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

// reader reads JSON and reports errors with their path. It keeps no path, but asks for it after an
// error.
type reader struct {
	root   string
	in     []byte
	json   *jsontext.Decoder
	budget *int
}

func newReader(root string, in []byte) *reader {
	in = bytes.TrimPrefix(in, []byte("\uFEFF"))
	decoder, _ := decoders.Get().(*jsontext.Decoder) // see New
	d := &reader{root: root, in: in, json: decoder}
	d.json.Reset(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
	return d
}

// decoders are reused, since a list has an item for every few bytes, and a decoder takes kilobytes.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// free ends the use of d.
func (d *reader) free() {
	d.json.Reset(bytes.NewReader(nil))
	decoders.Put(d.json)
}

// end refuses anything after the document.
func (d *reader) end() error { return shape.Ended(d.root, d.in, d.json.InputOffset()) }

// spend reduces the budget by the memory of a value.
func (d *reader) spend(n int) error {
	if d.budget == nil {
		return nil
	}
	if *d.budget -= n; *d.budget < 0 {
		return refuse(d.place(d.json.StackPointer()), "values that take at most a few times the memory of their JSON", "more")
	}
	return nil
}

func (d *reader) value() (any, error) {
	switch d.json.PeekKind() {
	case '{':
		object := make(map[string]any)
		if err := d.spend(objectCost); err != nil {
			return nil, err
		}
		return object, d.members(func(name string) error {
			v, err := d.value()
			object[name] = v
			return errors.Join(err, d.spend(memberCost+len(name)))
		})
	case '[':
		list := []any{}
		err := d.elements(func() error {
			v, err := d.value()
			list = append(list, v)
			return errors.Join(err, d.spend(elementCost))
		})
		return list, err
	}
	t, err := d.json.ReadToken()
	if err != nil {
		return nil, d.broken(err)
	}
	switch t.Kind() {
	case '"':
		text := t.String()
		return text, d.spend(textCost + len(text))
	case '0':
		number := t.String()
		if len(number) > maxNumber { // gojq reads it in time that grows with the square of its length
			return nil, refuse(d.place(d.json.StackPointer()), fmt.Sprintf("a number of at most %d digits", maxNumber), "more")
		}
		return json.Number(number), d.spend(textCost + len(number))
	case 't', 'f':
		return t.Bool(), nil
	default:
		return nil, nil //nolint:nilnil // null is nil
	}
}

// elements reads a list, with read for the value of each element.
func (d *reader) elements(read func() error) error { return d.inside(']', read) }

// members reads an object, with read for the value of each member.
func (d *reader) members(read func(name string) error) error {
	return d.inside('}', func() error {
		t, err := d.json.ReadToken()
		if err != nil {
			return d.broken(err)
		}
		return read(t.String())
	})
}

// inside reads a list or an object from its opening bracket to the closing one, which is end.
func (d *reader) inside(end jsontext.Kind, read func() error) error {
	_, err := d.json.ReadToken()
	if d.json.StackDepth() > maxDepth {
		return refuse(d.place(d.json.StackPointer()), fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	for err == nil && d.json.PeekKind() != end {
		if err := read(); err != nil {
			return err
		}
	}
	if err == nil {
		_, err = d.json.ReadToken()
	}
	return d.broken(err)
}

// raw skips one value and returns its bytes in the response.
func (d *reader) raw() ([]byte, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return nil, d.broken(err)
	}
	end := int(d.json.InputOffset())
	return d.in[end-len(v) : end : end], nil
}

// list reads a list, each element as its bytes in the response. There can be left of most elements.
func (d *reader) list(path string, left, most int) ([][]byte, error) {
	if d.json.PeekKind() != '[' {
		return nil, d.unlike(path, "a list")
	}
	items := [][]byte{}
	err := d.elements(func() error {
		if len(items) >= left {
			return refuse(d.root, fmt.Sprintf("at most %d items", most), "more")
		}
		item, err := d.raw()
		items = append(items, item)
		return err
	})
	return items, err
}

// unlike refuses the next value.
func (d *reader) unlike(path, want string) error {
	switch d.json.PeekKind() {
	case '{':
		return refuse(path, want, "an object")
	case '[':
		return refuse(path, want, "a list")
	}
	v, err := d.json.ReadValue()
	if err != nil {
		return d.broken(err)
	}
	return refuse(path, want, Clip(string(v)))
}

// broken turns an error of the reader into a refusal. It is nil for nil.
func (d *reader) broken(err error) error {
	if err == nil {
		return nil
	}
	path := d.root
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		path = d.place(syntax.JSONPointer)
	}
	return shape.Broken(path, d.in, d.json.InputOffset(), err)
}

func (d *reader) place(pointer jsontext.Pointer) string { return place(d.root, pointer) }

// place is the path of a JSON pointer.
func place(root string, pointer jsontext.Pointer) string {
	const most = 300
	path := root
	for token := range pointer.Tokens() {
		if len(path) > most {
			return path + "…"
		}
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			path += "[" + token + "]"
		} else {
			path = shape.Member(path, token)
		}
	}
	return path
}

func refuse(path, want, got string) error {
	return &shape.RefusedError{Path: path, Want: want, Got: got}
}

// Clip shortens text of the CMS for a log line.
func Clip(s string) string { return sanitize.Clip(s, 40) }
