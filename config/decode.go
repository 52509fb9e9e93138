package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
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
	parts   []source.Part // the preset's, of the resource that is decoded
	bundled bool          // a preset of the program
}

// decode decodes a document into a group. Its error is about the document as a whole.
func (d *decoder) decode(content []byte, key string, to any) error {
	root, err := document(content)
	if root != nil {
		d.value(root, key, root.Line, reflect.ValueOf(to).Elem(), "")
	}
	return err
}

func (d *decoder) refuse(key string, line int, format string, args ...any) {
	d.add(mistake(key, place{name: cmp.Or(key, "file"), file: d.file, line: line, layer: fromFile}, format, args...))
}

// anyText is the tag of texts that may be empty: those in lists, and those with names of their own.
const anyText reflect.StructTag = `unset:"ok"`

// value decodes n, which is on line.
func (d *decoder) value(n *yaml.Node, key string, line int, to reflect.Value, tag reflect.StructTag) {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++ // a block begins on the next line
	}
	d.places[key] = place{name: key, file: d.file, line: line, layer: fromFile}
	t := to.Type()
	_, isText := to.Addr().Interface().(interface{ Reveal() string })
	_, isTexts := to.Addr().Interface().(*[]string)
	switch kind := t.Kind(); {
	case !d.isPlain(n, key, line):
	case t == reflect.TypeFor[source.Body]():
		body := source.Body{}
		if n.Kind == yaml.ScalarNode {
			body.Text, _ = d.text(n, key, tag)
		} else {
			body.Value = d.json(n, key)
		}
		to.Set(reflect.ValueOf(body))
	case isTexts && n.Kind != yaml.MappingNode:
		d.texts(n, key, to, tag)
	case kind == reflect.Struct && !isText:
		d.group(n, key, to)
	case kind == reflect.Pointer:
		to.Set(reflect.New(t.Elem()))
		d.value(n, key, line, to.Elem(), tag)
	case kind == reflect.Slice && n.Kind == yaml.SequenceNode:
		d.list(n, key, to)
	case kind == reflect.Map && n.Kind == yaml.MappingNode:
		d.named(n, key, to)
	case n.Kind != yaml.ScalarNode, kind == reflect.Map, kind == reflect.Slice:
		d.refuse(key, line, "want %s, got %s", allowed(t, tag), describe(n))
	default:
		if text, ok := d.text(n, key, tag); ok {
			d.parse(n.Value, key, to, tag, text)
		}
	}
}

// parse sets a value to text, which was written so.
func (d *decoder) parse(written, key string, to reflect.Value, tag reflect.StructTag, text string) {
	if err := parse(to, tag, text); err != nil {
		d.add(refuse(key, d.places[key], to.Type(), tag, written, err))
	}
	if path, ok := to.Addr().Interface().(*Secret); ok && d.bundled {
		*path = source.Public(text)
	}
}

// group decodes a mapping of known keys.
func (d *decoder) group(n *yaml.Node, key string, to reflect.Value) {
	line := d.places[key].line
	if s, ok := Lookup(key + ".default"); ok && n.Kind != yaml.MappingNode { // ttl: 60s is short for ttl: {default: 60s}
		d.value(n, key, line, s.field(d.Config), s.tag)
		d.places[s.Key] = d.places[key]
		return
	}
	known, fields := keysOf(to.Type())
	if n.Kind != yaml.MappingNode {
		d.refuse(key, line, "want a mapping (%s), got %s", known, describe(n))
		return
	}
	all := d.pairs(n, key, false)
	d.mind(all, key, to.Addr().Interface())
	for _, p := range all {
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
	if r, ok := to.Addr().Interface().(*source.Resource); ok && r.Path != "" {
		d.short(r, key)
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

// named decodes a mapping with names of its own: the fields of a header, or parameters.
func (d *decoder) named(n *yaml.Node, key string, to reflect.Value) {
	to.Set(reflect.MakeMap(to.Type()))
	tag, areHeaders := anyText, to.Type() == reflect.TypeFor[source.Headers]()
	if areHeaders {
		tag += ` is:"header"`
	}
	for _, p := range d.pairs(n, key, areHeaders) {
		value := reflect.New(to.Type().Elem()).Elem()
		d.value(p.value, key+"."+p.name.Value, p.value.Line, value, tag)
		to.SetMapIndex(reflect.ValueOf(p.name.Value), value)
	}
}

// texts decodes a list of texts, or one text for a list of one; in that of a setting, commas separate.
func (d *decoder) texts(n *yaml.Node, key string, to reflect.Value, tag reflect.StructTag) {
	items := n.Content
	if n.Kind == yaml.ScalarNode {
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
	if all := strings.Join(made, ","); tag.Get("is")+tag.Get("oneof") != "" && len(d.errs) == before {
		d.parse(all, key, to, tag, all)
	}
}

// list decodes a list of structs.
func (d *decoder) list(n *yaml.Node, key string, to reflect.Value) {
	if len(n.Content) == 0 && to.Type() == reflect.TypeFor[[]source.Part]() {
		d.refuse(key, d.places[key].line, "want a list, got an empty list")
	}
	made := reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, fmt.Sprintf("%s[%d]", key, i), item.Line, made.Index(i), "")
	}
	to.Set(made)
}

// json returns what becomes JSON, each digit of a number. A date is a text.
func (d *decoder) json(n *yaml.Node, key string) (v any) {
	if !d.isPlain(n, key, n.Line) {
		return nil
	}
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode:
		object := map[string]any{}
		for _, p := range d.pairs(n, key, false) {
			object[p.name.Value] = d.json(p.value, key+"."+p.name.Value)
		}
		return object
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for i, item := range n.Content {
			list = append(list, d.json(item, fmt.Sprintf("%s[%d]", key, i)))
		}
		return list
	case (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)):
		return json.Number(n.Value)
	case slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, tag):
		err := n.Decode(&v)
		if _, no := json.Marshal(v); cmp.Or(err, no) != nil {
			d.refuse(key, n.Line, "want what can be written as JSON")
		}
		return v
	}
	d.places[key] = place{name: key, file: d.file, line: n.Line, layer: fromFile}
	text, _ := d.text(n, key, anyText)
	return text
}

// reference is ${NAME}, or $${ for ${ itself.
var (
	reference    = regexp.MustCompile(`\$?\$\{[^}]*\}?`)
	variableName = regexp.MustCompile(`^\$\{(\w+)\}$`)
)

// text is a scalar's text with its references replaced, unless one of them stands for nothing, which
// it refuses. There are none in a jq program. Below the trees, what a reference stands for is a secret
// and printed as it was written, as is a value of a header, and what follows the host of a URL.
func (d *decoder) text(n *yaml.Node, key string, tag reflect.StructTag) (text string, ok bool) {
	is, host := tag.Get("is"), ""
	switch {
	case isNull(n): // ~ or null
		return "", true
	case is == "jq program" || is == "predicate":
		return n.Value, true
	case is == "target's URL":
		host = source.Host(n.Value)
	}
	ok = true
	text = reference.ReplaceAllStringFunc(n.Value, func(ref string) (value string) {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		if name := variableName.FindStringSubmatch(ref); name != nil {
			value = d.variables[name[1]]
		} else {
			ref = "another form of it; a NAME has letters, digits and _"
		}
		if value == "" {
			ok = false
			d.refuse(key, d.places[key].line, "want ${NAME} of a variable that is set and not empty, or $${ for ${ itself; got %s", ref)
		}
		if !strings.Contains(host, ref) {
			d.hide(key, value)
		}
		return value
	})
	delete(d.written, key)
	switch {
	case is == "target's URL" || is == "target's path" && !d.bundled:
		for _, piece := range placeholder.Split(strings.TrimPrefix(text, strings.TrimSuffix(source.Host(text), "***")), -1) {
			d.hide(key, piece)
		}
	case is == "header" && !d.bundled && !source.IsPublic(key) && !placeholder.MatchString(text): // it may be a secret in part
		if d.hide(key, text); variableName.MatchString(n.Value) {
			d.written[key] = n.Value
		}
	case isTree(key) && (text != n.Value || is == "header"): // Bearer {token}
		d.written[key] = n.Value
	}
	return text, ok
}

// isTree reports whether key is below a setting that the environment cannot say.
func isTree(key string) bool {
	return strings.HasPrefix(key, "upstream.shared.") || strings.HasPrefix(key, "upstream.resources.") || strings.HasPrefix(key, "notify[")
}

// hide keeps a secret of a tree for those who mask it in errors.
func (d *decoder) hide(key, secret string) {
	if isTree(key) && len(secret) > 1 {
		d.secrets = append(d.secrets, secret)
	}
}
