package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// loadFile merges the YAML file, if there is one, into layers.
func loadFile(layers *koanf.Koanf, sources Sources) []error {
	named := configFile(sources)
	if named.Text == "" {
		return nil
	}
	p := &fileParser{path: named.Text}
	if err := layers.Load(file.Provider(named.Text), p); err != nil {
		return []error{mistake(named, fmt.Sprintf("want a YAML file that can be read, got %q: %s",
			named.Text, strings.TrimPrefix(cause(err).Error(), "yaml: ")))}
	}
	return p.errs
}

// fileParser is the koanf.Parser of the file. koanf's own forgets on which
// line a value stood and what it looked like; this one keeps both.
type fileParser struct {
	path   string
	values map[string]any
	lines  map[string]int // of the keys seen so far
	errs   []error
}

// Unmarshal returns the values by key, nested. Mistakes that stand on a line
// of their own are collected; only what is no YAML at all is an error here.
func (p *fileParser) Unmarshal(content []byte) (map[string]any, error) {
	p.values, p.lines = map[string]any{}, map[string]int{}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) { // an empty file says nothing
			return p.values, nil
		}
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		p.walk("", root)
	case isNull(root):
	default:
		return nil, errors.New("it is not a mapping of settings, but " + describe(root))
	}
	return nested(p.values), nil
}

// Marshal is half of the koanf.Parser interface, and not what it is for.
func (p *fileParser) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// walk reads a group of settings.
func (p *fileParser) walk(group string, mapping *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := mapping.Content[i], mapping.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		p.entry(group+name.Value, name.Line, value)
	}
}

// entry reads one key of a group: a setting, or a group in turn.
func (p *fileParser) entry(key string, line int, value *yaml.Node) {
	g := given{Origin: origin{Name: key, File: fmt.Sprintf("%s:%d", p.path, line), Layer: fromFile}}
	if first, again := p.lines[key]; again {
		p.errs = append(p.errs, mistake(g, fmt.Sprintf("want it once, got it on line %d already", first)))
		return
	}
	p.lines[key] = line

	s, isSetting := lookup(key)
	group := members(key)
	// ttl: 60s is short for ttl: {default: 60s}.
	if common, ok := lookup(key + ".default"); ok && value.Kind != yaml.MappingNode {
		s, isSetting = common, true
	}
	switch {
	case isNull(value): // a key without a value says nothing
		if !isSetting && len(group) == 0 {
			p.errs = append(p.errs, unknownKey(g))
		}
	case isSetting && s.isParts():
		p.parts(s, g, value)
	case isSetting:
		g.Text, g.Found = content(s, value)
		p.values[s.Key] = g
	case len(group) == 0:
		p.errs = append(p.errs, unknownKey(g))
	case value.Kind == yaml.MappingNode:
		p.walk(key+".", value)
	default:
		p.errs = append(p.errs, mistake(g, fmt.Sprintf("want a group of settings (%s), got %s",
			strings.Join(group, ", "), describe(value))))
	}
}

// parts keeps a list of parts as it is.
func (p *fileParser) parts(s Setting, g given, value *yaml.Node) {
	var err error
	g.Node = bare(value, 0)
	if g.Text, err = canonical(g.Node); err != nil {
		p.errs = append(p.errs, mistake(g, err.Error()))
		return
	}
	p.values[s.Key] = g
}

// content returns the text of a value, or how to describe it in an error when
// s cannot be said with such a value.
func content(s Setting, value *yaml.Node) (text, found string) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, ""
	case yaml.SequenceNode:
		if !s.isList() {
			return "", describe(value)
		}
		items := make([]string, 0, len(value.Content))
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", "a list that holds " + describe(item)
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), ""
	default:
		return "", describe(value)
	}
}

// describe names a value in an error by its kind, as it may hold a secret.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// nested turns keys with dots into the mapping of mappings that koanf merges.
func nested(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		group := out
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			sub, ok := group[part].(map[string]any)
			if !ok {
				sub = map[string]any{}
				group[part] = sub
			}
			group = sub
		}
		group[parts[len(parts)-1]] = value
	}
	return out
}
