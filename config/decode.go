package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
)

// decoder reads a YAML document into a Config: the configuration file, or, before it, a preset. A
// value stays as it is unless the document has it; so the file is merged over the preset. Mistakes
// are collected.
type decoder struct {
	*loader
	file    string        // for messages
	left    int           // values that it may still have, those of aliases included
	parts   []source.Part // the preset's, of the resource that is decoded
	bundled bool          // a preset of the program
}

// maxValues bounds the values of a file: aliases can be of aliases in turn, or contain themselves.
// maxKey bounds how deep it is, by the length of a whole key.
const (
	maxValues = 10_000
	maxKey    = 1000
)

// decode decodes a document into a group. Its error is about the document as a whole.
func (d *decoder) decode(content []byte, key string, to any) error {
	root, err := document(content)
	if root == nil {
		return err
	}
	before := len(d.errs)
	d.left = maxValues
	if d.value(root, key, root.Line, reflect.ValueOf(to).Elem(), ""); d.left < 0 {
		d.errs = d.errs[:before]
		return fmt.Errorf("it has more than %d values, those of aliases included, or is too deep", maxValues)
	}
	return nil
}

func (d *decoder) refuse(key string, line int, format string, args ...any) {
	name := key
	if name == "" {
		name = "file"
	}
	d.add(mistake(key, place{name: name, file: d.file, line: line, layer: fromFile}, format, args...))
}

// value decodes n, which is on line.
func (d *decoder) value(n *yaml.Node, key string, line int, to reflect.Value, tag reflect.StructTag) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.left--; d.left < 0 || len(key) > maxKey {
		d.left = -1
		return
	}
	if !slices.Contains(tags, n.ShortTag()) {
		d.refuse(key, line, "want a value without a tag such as !!binary; ${NAME} stands for a variable's")
		return
	}
	at := place{name: key, file: d.file, line: line, layer: fromFile}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		at.text = 1 // a block begins on the next line
	}
	d.places[key] = at
	t := to.Type()
	_, isLeaf := to.Addr().Interface().(interface{ Reveal() string })
	switch {
	case t == reflect.TypeFor[source.Body]():
		body, _ := to.Addr().Interface().(*source.Body)
		if *body = (source.Body{}); n.Kind == yaml.ScalarNode {
			body.Text, _ = d.text(n, key, tag)
		} else {
			d.value(n, key, line, reflect.ValueOf(&body.Value).Elem(), anyText)
		}
	case t.Kind() == reflect.Interface:
		d.json(n, key, line, to)
	case t == reflect.TypeFor[[]string]():
		d.texts(n, key, to, tag)
	case t.Kind() == reflect.Struct && !isLeaf:
		d.group(n, key, to)
	case t.Kind() == reflect.Pointer:
		to.Set(reflect.New(t.Elem()))
		d.value(n, key, line, to.Elem(), tag)
	case t.Kind() == reflect.Slice:
		d.list(n, key, to)
	case t.Kind() == reflect.Map:
		if to.Set(reflect.MakeMap(t)); n.Kind != yaml.MappingNode {
			d.refuse(key, line, "want names and their values, got %s", describe(n))
			return
		}
		areHeaders := t == reflect.TypeFor[source.Headers]()
		for _, p := range d.pairs(n, key, areHeaders) {
			value, tag := reflect.New(t.Elem()).Elem(), anyText
			if areHeaders {
				tag += ` is:"header"`
			}
			d.value(p.value, key+"."+p.name.Value, p.value.Line, value, tag)
			to.SetMapIndex(reflect.ValueOf(p.name.Value), value)
		}
	case n.Kind != yaml.ScalarNode:
		d.refuse(key, line, "want %s, got %s", allowed(t, tag), describe(n))
	default:
		if text, ok := d.text(n, key, tag); ok {
			d.check(key, n.Value, to, tag, parse(to, tag, text))
		}
	}
}

// json decodes what becomes JSON, each digit of a number. A date is a text.
func (d *decoder) json(n *yaml.Node, key string, line int, to reflect.Value) {
	var v any
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode:
		object := map[string]any{}
		d.value(n, key, line, reflect.ValueOf(&object).Elem(), "")
		v = object
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		d.value(n, key, line, reflect.ValueOf(&list).Elem(), "")
		v = list
	case tag == "!!null":
		return
	case (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)):
		v = json.Number(n.Value)
	case tag == "!!int" || tag == "!!float" || tag == "!!bool":
		err := n.Decode(&v)
		if _, no := json.Marshal(v); err != nil || no != nil {
			d.refuse(key, n.Line, "want what can be written as JSON")
			return
		}
	default:
		v, _ = d.text(n, key, anyText)
	}
	to.Set(reflect.ValueOf(v))
}

// anyText is the tag of texts that may be empty: those in lists, and those with names of their own.
const anyText reflect.StructTag = `unset:"ok"`

// check reports why the value of key, as it was written, is not allowed, if it is not.
func (d *decoder) check(key, written string, of reflect.Value, tag reflect.StructTag, why error) {
	if why != nil {
		d.add(refuse(key, d.places[key], of.Type(), tag, written, why))
	}
}

// group decodes a mapping of known keys.
func (d *decoder) group(n *yaml.Node, key string, to reflect.Value) {
	if s, ok := Lookup(key + ".default"); ok && n.Kind != yaml.MappingNode { // ttl: 60s is short for ttl: {default: 60s}
		d.value(n, key, d.places[key].line, s.field(d.Config), s.tag)
		d.places[s.Key] = d.places[key]
		return
	}
	known, fields := keysOf(to.Type())
	if n.Kind != yaml.MappingNode {
		d.refuse(key, d.places[key].line, "want a mapping (%s), got %s", known, describe(n))
		return
	}
	for _, p := range d.mind(d.pairs(n, key, false), key, to.Addr().Interface()) {
		below, at := strings.TrimPrefix(key+"."+p.name.Value, "."), slices.Index(known, p.name.Value)
		if at < 0 {
			d.add(unknown(place{name: below, file: d.file, line: p.name.Line, layer: fromFile}, p.name.Value, known, "known here are "))
		} else if !isNull(p.value) { // a key without a value is ignored
			tag, line := fields[at].Tag, p.value.Line
			if s, ok := Lookup(below); ok {
				tag, line = s.tag, p.name.Line
			}
			d.value(p.value, below, line, to.FieldByIndex(fields[at].Index), tag)
		}
	}
}

// keysOf are the keys of a struct in the file, those of embedded ones among them, and their fields.
func keysOf(t reflect.Type) (known []string, fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" && !f.Anonymous {
			known, fields = append(known, name), append(fields, f)
		}
	}
	return known, fields
}

// texts decodes a list of texts, or one text for a list of one; in that of a setting, commas separate.
func (d *decoder) texts(n *yaml.Node, key string, to reflect.Value, tag reflect.StructTag) {
	items, isSetting := n.Content, tag.Get("is") != ""
	switch n.Kind {
	case yaml.MappingNode:
		d.refuse(key, d.places[key].line, "want a list, got a mapping")
		return
	case yaml.ScalarNode:
		items = []*yaml.Node{n}
	}
	made, before := make([]string, len(items)), len(d.errs)
	for i, item := range items {
		below := key
		if item != n {
			below = fmt.Sprintf("%s[%d]", key, i)
		}
		d.value(item, below, item.Line, reflect.ValueOf(made).Index(i), anyText)
	}
	to.Set(reflect.ValueOf(made))
	if all := strings.Join(made, ","); isSetting && len(d.errs) == before {
		d.check(key, all, to, tag, parse(to, tag, all))
	}
}

// list decodes a list of structs.
func (d *decoder) list(n *yaml.Node, key string, to reflect.Value) {
	parts, isParts := to.Interface().([]source.Part)
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 && isParts {
		d.refuse(key, d.places[key].line, "want a list, got %s", describe(n))
		return
	}
	d.parts = parts
	made := reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, fmt.Sprintf("%s[%d]", key, i), item.Line, made.Index(i), "")
	}
	to.Set(made)
}
