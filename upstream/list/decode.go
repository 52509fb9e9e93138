package list

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/upstream/shape"
)

// Error is a mistake in the configuration of a resource.
type Error struct {
	Resource shape.Resource // empty for what is shared
	Key      string         // below the resource, or upstream: parts[0].paging.size, shared.login
	Line     int            // of the file; 0 if unknown
	Err      error
}

func (e *Error) Error() string {
	if e.Resource == "" {
		return fmt.Sprintf("upstream %s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("upstream resource %s: %s: %v", e.Resource, e.Key, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Parse reads the parts of r from a configuration file; nil means none. Its error is an *[Error]:
// the first mistake, with its key and line.
func (o *Resource) Parse(r shape.Resource, n *yaml.Node) error {
	if n == nil {
		return nil
	}
	o.lines = make(map[string]int)
	d := decoder{resource: r, lines: o.lines}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return d.fail(n, "parts", "want a list of parts, got "+describe(n))
	}
	return d.value(n, "parts", reflect.ValueOf(&o.Parts).Elem(), "")
}

// Parse reads what all parts share. Nil is nothing. Its error is an *[Error].
func (s *Shared) Parse(n *yaml.Node) error {
	if n == nil {
		return nil
	}
	s.lines = make(map[string]int)
	d := decoder{lines: s.lines}
	return d.value(n, "shared", reflect.ValueOf(s).Elem(), "")
}

// decoder fills structs from nodes by their tags: yaml has the key, want the allowed words or
// range.
type decoder struct {
	resource shape.Resource
	lines    map[string]int // by key
}

func (d *decoder) fail(n *yaml.Node, key, problem string) error {
	return &Error{Resource: d.resource, Key: key, Line: n.Line, Err: errors.New(problem)}
}

func (d *decoder) value(n *yaml.Node, key string, to reflect.Value, want string) error {
	d.lines[key] = n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		d.lines[before(key)] = n.Line - 1
	} else { // a block begins on the next line
		d.lines[before(key)] = n.Line
	}
	if body, ok := to.Addr().Interface().(*Body); ok {
		return d.body(n, key, body)
	}
	switch to.Kind() {
	case reflect.Struct:
		return d.object(n, key, to)
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return d.value(n, key, to.Elem(), want)
	case reflect.Slice:
		return d.list(n, key, to)
	case reflect.Map:
		return d.mapping(n, key, to)
	}
	if n.Kind != yaml.ScalarNode {
		return d.fail(n, key, fmt.Sprintf("want %s, got %s", allowed(to, want), describe(n)))
	}
	if !set(to, n.Value, want) {
		return d.fail(n, key, fmt.Sprintf("want %s, got %q", allowed(to, want), n.Value))
	}
	return nil
}

// set parses a single value.
func set(to reflect.Value, text, want string) bool {
	switch to.Kind() {
	case reflect.Int:
		v, err := strconv.Atoi(text)
		low, high, _ := strings.Cut(want, "-")
		least, _ := strconv.Atoi(low) // of a tag
		most, _ := strconv.Atoi(high)
		to.SetInt(int64(v))
		return err == nil && v >= least && v <= most
	case reflect.Bool:
		to.SetBool(text == "true")
		return text == "true" || text == "false"
	default:
		to.SetString(text)
		if want != "" {
			return want == anyText || slices.Contains(strings.Split(want, "|"), text)
		}
		return strings.TrimSpace(text) != ""
	}
}

// anyText is the want of texts that may be empty: those in lists, and those with names of their own.
const anyText = "|"

// allowed describes the values that set accepts.
func allowed(to reflect.Value, want string) string {
	switch to.Kind() {
	case reflect.Int:
		return "a whole number from " + strings.Replace(want, "-", " to ", 1)
	case reflect.Bool:
		return "true or false"
	}
	if want == "" || want == anyText {
		return "a text"
	}
	last := strings.LastIndexByte(want, '|')
	return strings.ReplaceAll(want[:last], "|", ", ") + " or " + want[last+1:]
}

// object reads a mapping whose keys are those of a struct.
func (d *decoder) object(n *yaml.Node, key string, to reflect.Value) error {
	var known []string
	for i := range to.NumField() {
		if tag := to.Type().Field(i).Tag.Get("yaml"); tag != "" {
			known = append(known, tag)
		}
	}
	if n.Kind != yaml.MappingNode {
		return d.fail(n, key, fmt.Sprintf("want a %s (%s), got %s", strings.ToLower(to.Type().Name()), strings.Join(known, ", "), describe(n)))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := slices.Index(known, name.Value)
		below := key + "." + name.Value
		switch {
		case at < 0:
			return d.fail(name, below, "no such setting; known here are "+strings.Join(known, ", "))
		case seen[name.Value]:
			return d.fail(name, below, "want it once, got it again")
		case value.ShortTag() == "!!null": // a key without a value is ignored
			continue
		}
		seen[name.Value] = true
		if err := d.value(value, below, to.Field(at), to.Type().Field(at).Tag.Get("want")); err != nil {
			return err
		}
	}
	return nil
}

// body reads what is posted: a text, or what becomes JSON.
func (d *decoder) body(n *yaml.Node, key string, to *Body) error {
	if n.Kind == yaml.ScalarNode {
		to.Text = n.Value
		return nil
	}
	err := n.Decode(&to.Value)
	if _, bad := json.Marshal(to.Value); err != nil || bad != nil {
		return d.fail(n, key, "want what can be written as JSON")
	}
	return nil
}

// list reads a sequence, or one text for a list of one.
func (d *decoder) list(n *yaml.Node, key string, to reflect.Value) error {
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && to.Type().Elem().Kind() == reflect.String:
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		return d.fail(n, key, "want a list, got "+describe(n))
	}
	to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
	for i, item := range items {
		below := key
		if item != n {
			below = fmt.Sprintf("%s[%d]", key, i)
		}
		if err := d.value(item, below, to.Index(i), anyText); err != nil {
			return err
		}
	}
	return nil
}

// mapping reads names and their values: a string each, or a list of strings.
func (d *decoder) mapping(n *yaml.Node, key string, to reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return d.fail(n, key, "want names and their values, got "+describe(n))
	}
	to.Set(reflect.MakeMap(to.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, reflect.New(to.Type().Elem()).Elem()
		if err := d.value(n.Content[i+1], key+"."+name, value, anyText); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
	return nil
}

// describe names a node by its kind, since it may contain a secret.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

// before is where the lines of a decoder have the line before the first one of a text.
func before(key string) string { return key + "\n" }
