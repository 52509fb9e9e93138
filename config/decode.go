package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
)

// decoder reads one YAML document: the configuration file, whose settings it collects as texts, or
// what is below upstream.shared and upstream.resources, which it decodes into structs. Mistakes are
// collected.
type decoder struct {
	reader
	file    string            // for messages
	values  values            // the settings found
	origins map[string]origin // of everything below a tree
	errs    []error
	// around is called before a value below a tree is decoded, and what it returns after that. Nil:
	// nothing is.
	around func(n *yaml.Node, key string, to any) (after func())
}

func (d *decoder) at(key string, line int) origin {
	return origin{key: key, name: cmp.Or(key, "file"), file: d.file, line: line, layer: fromFile}
}

func (d *decoder) refuse(key string, line int, format string, args ...any) {
	d.errs = append(d.errs, mistake(d.at(key, line), format, args...))
}

// root is the tidied root of the only document in content, or nil if that is empty.
func (d *decoder) root(content []byte) (*yaml.Node, error) {
	root, err := parseYAML(content)
	if root == nil {
		return nil, err
	}
	t := tidier{left: maxValues, refuse: d.refuse}
	if root = t.tidy(root, ""); t.left < 0 {
		return nil, fmt.Errorf("it has more than %d values, those of aliases included, or is too deep", maxValues)
	}
	return root, nil
}

// object gives each key of a mapping to each, but for those without a value. Others than the known
// ones are refused.
func (d *decoder) object(n *yaml.Node, key string, known []string, each func(at int, below string, name, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.refuse(key, n.Line, "want a mapping (%s), got %s", known, describe(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		below := strings.TrimPrefix(key+"."+name.Value, ".")
		at := slices.Index(known, name.Value)
		switch {
		case at < 0:
			d.errs = append(d.errs, unknown(d.at(below, name.Line), name.Value, known, "known here are "))
		case isNull(value): // a key without a value is ignored
		default:
			each(at, below, name, value)
		}
	}
}

// group collects the settings of a group, which is a struct of type t.
func (d *decoder) group(n *yaml.Node, key string, t reflect.Type) {
	known, fields := keysOf(t)
	d.object(n, key, known, func(at int, below string, name, value *yaml.Node) {
		s, isSetting := Lookup(below)
		// ttl: 60s is short for ttl: {default: 60s}.
		if common, ok := Lookup(below + ".default"); ok && value.Kind != yaml.MappingNode {
			s, isSetting = common, true
		}
		if !isSetting {
			d.group(value, below, fields[at].Type)
			return
		}
		g := given{origin: d.at(below, name.Line)}
		if s.isTree() {
			g.node = value
		} else if err := d.setting(s, value, &g); err != nil {
			g.wrong = mistake(g.origin, "%s", err)
		}
		d.values[s.Key] = g
	})
}

// setting reads the text of a setting.
func (d *decoder) setting(s Setting, value *yaml.Node, g *given) error {
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && s.is([]string{}) {
		items = value.Content
	}
	var texts, written []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			found := describe(item)
			if item != value {
				found = "a list containing " + found
			}
			return fmt.Errorf("want %s, got %s", s.Allowed(), found)
		}
		text, _, err := d.expand(textOf(item))
		if err != nil {
			return err
		}
		texts, written = append(texts, text), append(written, textOf(item))
	}
	g.text = strings.Join(texts, ",")
	if w := strings.Join(written, ","); w != g.text {
		g.written = w
	}
	return nil
}

// tree decodes the value of a tree, if there is one.
func (d *decoder) tree(c *Config, s Setting, n *yaml.Node) {
	if n != nil && s.isTree() {
		d.masked = false
		d.value(n, s.Key, s.field(c), "")
		c.trees[s.Key] = tree{shown: canonical(n), hides: d.masked}
	}
}

// value decodes what is below a tree.
func (d *decoder) value(n *yaml.Node, key string, to reflect.Value, tag reflect.StructTag) {
	at := d.at(key, n.Line)
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		at.text = 1 // a block begins on the next line
	}
	d.origins[key] = at
	v := to.Addr().Interface()
	if body, ok := v.(*source.Body); ok {
		d.body(n, key, body)
		return
	}
	if d.around != nil {
		end := d.around(n, key, v)
		defer end()
	}
	switch to.Kind() {
	case reflect.Struct:
		d.structure(n, key, to)
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.value(n, key, to.Elem(), tag)
	case reflect.Slice:
		d.list(n, key, to)
	case reflect.Map:
		d.mapping(n, key, to)
	default:
		d.scalar(n, key, to, kindOf(to.Type(), tag), tag.Get("is") == "jq program")
	}
}

// keysOf are the keys of a struct in the file, those of embedded ones among them, and their fields.
func keysOf(t reflect.Type) (known []string, fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" {
			known, fields = append(known, name), append(fields, f)
		}
	}
	return known, fields
}

func (d *decoder) structure(n *yaml.Node, key string, to reflect.Value) {
	known, fields := keysOf(to.Type())
	d.object(n, key, known, func(at int, below string, _, value *yaml.Node) {
		d.value(value, below, to.FieldByIndex(fields[at].Index), fields[at].Tag)
	})
}

// list reads a sequence, or one text for a list of one.
func (d *decoder) list(n *yaml.Node, key string, to reflect.Value) {
	items := n.Content
	texts := to.Type().Elem().Kind() == reflect.String
	switch {
	case n.Kind == yaml.ScalarNode && texts:
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode || len(items) == 0 && !texts && to.Type() != reflect.TypeFor[Targets]():
		d.refuse(key, n.Line, "want a list, got %s", describe(n))
		return
	}
	made := reflect.MakeSlice(to.Type(), len(items), len(items))
	reflect.Copy(made, to)
	for i, item := range items {
		below := key
		if item != n {
			below = fmt.Sprintf("%s[%d]", key, i)
		}
		d.value(item, below, made.Index(i), anyText)
	}
	to.Set(made)
}

// anyText is the tag of texts that may be empty: those in lists, and those with names of their own.
const anyText reflect.StructTag = `unset:"ok"`

// mapping reads names and their values: a text each, or a list of texts.
func (d *decoder) mapping(n *yaml.Node, key string, to reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.refuse(key, n.Line, "want names and their values, got %s", describe(n))
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, reflect.New(to.Type().Elem()).Elem()
		d.value(n.Content[i+1], key+"."+name, value, anyText)
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (d *decoder) scalar(n *yaml.Node, key string, to reflect.Value, k kind, isProgram bool) {
	if n.Kind != yaml.ScalarNode {
		d.refuse(key, n.Line, "want %s, got %s", k.describe(), describe(n))
		return
	}
	written, text := n.Value, n.Value
	if !isProgram {
		text = d.read(n, key)
	}
	if err := k.parse(to, text); err != nil {
		switch {
		case isSecret(key):
			written = mask
		case isTargetURL(key):
			written = maskURL(n.Value)
		}
		d.refuse(key, n.Line, "want %s, got %q", k.describe(), written)
	}
}

// read reads a text, or refuses its references.
func (d *decoder) read(n *yaml.Node, key string) string {
	text, err := d.text(n, key)
	if err != nil {
		d.refuse(key, n.Line, "%s", err)
	}
	return text
}

// body reads what is posted: a text, or what becomes JSON.
func (d *decoder) body(n *yaml.Node, key string, to *source.Body) {
	*to = source.Body{}
	if n.Kind == yaml.ScalarNode {
		to.Text = d.read(n, key)
		return
	}
	var err error
	if to.Value, err = d.json(n, key); err == nil {
		_, err = json.Marshal(to.Value)
	}
	if err != nil {
		d.refuse(key, n.Line, "want what can be written as JSON")
	}
}

func (d *decoder) json(n *yaml.Node, key string) (v any, err error) {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any)
		for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
			name := n.Content[i].Value
			object[name], err = d.json(n.Content[i+1], key+"."+name)
		}
		return object, err
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			if v, err = d.json(item, key); err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	tag := n.ShortTag()
	isNumber := tag == "!!int" || tag == "!!float"
	if !isNumber && tag != "!!bool" && tag != "!!null" { // a date is a text
		return d.read(n, key), nil
	}
	err = n.Decode(&v)
	if isNumber && json.Valid([]byte(n.Value)) { // each digit of it
		v = json.Number(n.Value)
	}
	if isNumber && isSecret(key) {
		d.mask(n, mask, n.Value)
	}
	return v, err
}
