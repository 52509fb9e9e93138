package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileReader reads the YAML file into values, each with its line. Mistakes are collected.
type fileReader struct {
	path    string
	environ []string
	values  values
	lines   map[string]int // of the keys seen so far
	errs    []error
}

// file is the layer of the YAML file, if there is one.
func (v values) file(sources Sources) []error {
	path, named := sources.File, origin{name: "--config", layer: fromFlag}
	if path == "" {
		path, named = Variable(sources.Environ, envConfig), origin{name: envConfig, layer: fromEnvironment}
	}
	if path == "" {
		return nil
	}
	r := &fileReader{path: path, environ: sources.Environ, values: v, lines: map[string]int{}}
	if err := r.read(); err != nil {
		return []error{mistake(named, "want a YAML file that can be read, got %q: %s",
			path, strings.TrimPrefix(cause(err).Error(), "yaml: "))}
	}
	return r.errs
}

// read fails if the file is not YAML or not a mapping.
func (r *fileReader) read() error {
	content, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) { // an empty file is valid
			return nil
		}
		return err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("it contains more than one document")
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		r.group("", root)
	case !isNull(root):
		return errors.New("it is not a mapping of settings, but " + describe(root))
	}
	return nil
}

// group reads a group of settings.
func (r *fileReader) group(prefix string, mapping *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := mapping.Content[i], mapping.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		r.entry(prefix+name.Value, name.Line, value)
	}
}

// entry reads one key of a group: a setting, or a group in turn.
func (r *fileReader) entry(key string, line int, value *yaml.Node) {
	o := origin{name: key, file: fmt.Sprintf("%s:%d", r.path, line), layer: fromFile}
	refuse := func(err error) { r.errs = append(r.errs, err) }
	if first, again := r.lines[key]; again {
		refuse(mistake(o, "already set on line %d", first))
		return
	}
	r.lines[key] = line

	s, isSetting := Lookup(key)
	group := members(key)
	// ttl: 60s is short for ttl: {default: 60s}.
	if common, ok := Lookup(key + ".default"); ok && value.Kind != yaml.MappingNode {
		s, isSetting = common, true
	}
	switch {
	case !isSetting && len(group) == 0:
		here := key
		for len(group) == 0 {
			here = here[:max(0, strings.LastIndexByte(here, '.'))]
			group = members(here)
		}
		refuse(unknown(o, 1+strings.LastIndexByte(key, '.'), names(""), "known here are %s", group...))
	case isNull(value): // a key without a value is ignored
	case isSetting:
		g, err := content(s, value)
		if err != nil {
			refuse(mistake(o, "%s", err))
			return
		}
		if s.isParts() {
			if at, err := expand(g.node, r.environ); err != nil {
				o.file = fmt.Sprintf("%s:%d", r.path, at.Line)
				refuse(mistake(o, "%s", err))
				return
			}
		}
		g.origin = o
		r.values[s.Key] = g
	case value.Kind == yaml.MappingNode:
		r.group(key+".", value)
	default:
		refuse(mistake(o, "want a group of settings (%s), got %s", strings.Join(group, ", "), describe(value)))
	}
}

// content returns the text of a value, or a description for errors if s cannot have such a value.
func content(s Setting, value *yaml.Node) (g given, err error) {
	if s.isParts() {
		left := maxValues
		if g.node, err = bare(value, &left); err != nil {
			return g, err
		}
		g.text, err = canonical(g.node) // before references are replaced
		return g, err
	}
	switch {
	case value.Kind == yaml.ScalarNode:
		g.text = value.Value
	case value.Kind == yaml.SequenceNode && is[[]string](s):
		items := make([]string, 0, len(value.Content))
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return given{found: "a list containing " + describe(item)}, nil
			}
			items = append(items, item.Value)
		}
		g.text = strings.Join(items, ",")
	default:
		g.found = describe(value)
	}
	return g, nil
}

// describe names a value by its kind, since it may contain a secret.
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
