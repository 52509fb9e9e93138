package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/shape"
)

// maxDepth bounds nesting, as normalizing does.
const maxDepth = 64

// Decode reads one JSON value into what programs work on: nil, bool, json.Number, string, []any and
// map[string]any. Of a name that comes twice the last value counts. Its error is a
// *shape.RefusedError whose path begins with root.
func Decode(root string, in []byte) (any, error) {
	d := newReader(root, in)
	v, err := d.value(root, 0)
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

// reader reads JSON and says of what it cannot read where that stands.
type reader struct {
	root string
	in   []byte
	json *jsontext.Decoder
}

func newReader(root string, in []byte) *reader {
	in = bytes.TrimPrefix(in, []byte("\uFEFF"))
	return &reader{root: root, in: in, json: jsontext.NewDecoder(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))}
}

// end refuses what follows the document.
func (d *reader) end() error {
	at := min(d.json.InputOffset(), int64(len(d.in)))
	if rest := bytes.TrimLeft(d.in[at:], " \t\r\n"); len(rest) > 0 {
		return refuse(d.root, "nothing after the document", Clip(string(rest)))
	}
	return nil
}

func (d *reader) value(path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, refuse(path, fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	switch d.json.PeekKind() {
	case '{':
		object := make(map[string]any)
		return object, d.members(func(name string) error {
			v, err := d.value(join(path, name), depth+1)
			object[name] = v
			return err
		})
	case '[':
		list := []any{}
		return list, d.elements(&list, path, depth)
	}
	t, err := d.json.ReadToken()
	if err != nil {
		return nil, d.broken(path, err)
	}
	switch t.Kind() {
	case '"':
		return t.String(), nil
	case '0':
		return json.Number(t.String()), nil
	case 't', 'f':
		return t.Bool(), nil
	default:
		return nil, nil //nolint:nilnil // null is nil
	}
}

func (d *reader) elements(list *[]any, path string, depth int) error {
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(path, err)
	}
	for d.json.PeekKind() != ']' {
		v, err := d.value(index(path, len(*list)), depth+1)
		if err != nil {
			return err
		}
		*list = append(*list, v)
	}
	_, err := d.json.ReadToken()
	return d.broken(path, err)
}

// members reads an object, with read for the value of each member.
func (d *reader) members(read func(name string) error) error {
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(d.root, err)
	}
	for d.json.PeekKind() != '}' {
		t, err := d.json.ReadToken()
		if err != nil {
			return d.broken(d.root, err)
		}
		if err := read(t.String()); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return d.broken(d.root, err)
}

// raw reads past one value and returns it as it stands in the answer.
func (d *reader) raw(path string) ([]byte, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return nil, d.broken(path, err)
	}
	end := int(d.json.InputOffset())
	return d.in[end-len(v) : end : end], nil
}

// list reads a list, each element as it stands in the answer.
func (d *reader) list(path string) ([][]byte, error) {
	if d.json.PeekKind() != '[' {
		return nil, d.unlike(path, "a list")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return nil, d.broken(path, err)
	}
	items := [][]byte{}
	for d.json.PeekKind() != ']' {
		item, err := d.raw(index(path, len(items)))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := d.json.ReadToken()
	return items, d.broken(path, err)
}

// unlike refuses the value that comes.
func (d *reader) unlike(path, want string) error {
	switch d.json.PeekKind() {
	case '{':
		return refuse(path, want, "an object")
	case '[':
		return refuse(path, want, "a list")
	}
	v, err := d.json.ReadValue()
	if err != nil {
		return d.broken(path, err)
	}
	return refuse(path, want, Clip(string(v)))
}

// broken says what an error of the reader means. It is nil for none.
func (d *reader) broken(path string, err error) error {
	if err == nil {
		return nil
	}
	offset := d.json.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
	}
	at := min(int(offset), len(d.in))
	switch {
	case len(bytes.TrimSpace(d.in)) == 0:
		return refuse(path, "a JSON document", "nothing")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(path, "the rest of the document", fmt.Sprintf("its end after %d bytes", len(d.in)))
	default:
		return refuse(path, "JSON in UTF-8", fmt.Sprintf("%s at offset %d", Clip(string(d.in[at:])), at))
	}
}

func refuse(path, want, got string) error {
	return &shape.RefusedError{Path: path, Want: want, Got: got}
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Index appends the index of an element to a path.
func Index(path string, i int) string { return index(path, i) }

// join appends the name of a member, which the CMS made up, to a path.
func join(path, name string) string {
	plain := name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return path + "." + name
	}
	return path + "[" + Clip(strconv.Quote(name)) + "]"
}

// Clip shortens what a CMS sent to what a log line can bear.
func Clip(s string) string {
	const most = 40
	short := s
	if len(s) > most {
		short = s[:most]
	}
	short = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(short, "\uFFFD"))
	if len(s) > most {
		short += "…"
	}
	return short
}
