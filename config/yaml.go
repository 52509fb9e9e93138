package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML returns the root of the only document, or nil if it is empty.
func parseYAML(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil //nolint:nilnil // see above
		}
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it contains more than one document")
	}
	root := document.Content[0]
	if isNull(root) {
		return nil, nil //nolint:nilnil // see above
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping of settings, but " + describe(root))
	}
	return root, nil
}

// maxValues bounds the values of a file, with those of aliases, which can be of aliases in turn, or
// contain themselves.
const maxValues = 10_000

// maxKey bounds how deep a file is, by the length of a whole key.
const maxKey = 1000

// tags are those of values that mean what they look like. Another program's, such as !env, would be
// taken for the text after it.
var tags = []string{"!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!merge"}

// tidier copies nodes without comments, aliases, merge keys (<<) and redundant tags.
type tidier struct {
	left   int // of values
	refuse func(key string, line int, format string, args ...any)
}

// tidy returns the copy of n, of which nothing is left of what it refuses; nil if there is too
// much.
func (t *tidier) tidy(n *yaml.Node, key string) *yaml.Node {
	if t.left--; t.left < 0 || len(key) > maxKey {
		t.left = -1
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return t.tidy(n.Alias, key)
	}
	if !slices.Contains(tags, n.ShortTag()) {
		t.refuse(key, n.Line, "want a value without %s; ${env:NAME} and ${file:PATH} stand for others", n.ShortTag())
	}
	out := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line}
	if n.Kind != yaml.MappingNode {
		for i, inner := range n.Content {
			out.Content = append(out.Content, t.tidy(inner, fmt.Sprintf("%s[%d]", key, i)))
		}
		return out
	}
	lines := make(map[string]int)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		below := strings.TrimPrefix(key+"."+name.Value, ".")
		first, again := lines[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			t.refuse(key, name.Line, "want keys that are texts")
		case again:
			t.refuse(below, name.Line, "already set on line %d", first)
		case name.ShortTag() == "!!merge":
			merged, lines[name.Value] = append(merged, value), name.Line
		default:
			lines[name.Value] = name.Line
			out.Content = append(out.Content, &yaml.Node{Kind: name.Kind, Value: name.Value, Line: name.Line}, t.tidy(value, below))
		}
	}
	for _, from := range merged {
		for _, m := range t.mappings(from, key) {
			for i := 0; i+1 < len(m.Content); i += 2 {
				if name := m.Content[i].Value; lines[name] == 0 {
					lines[name] = m.Content[i].Line
					out.Content = append(out.Content, m.Content[i], m.Content[i+1])
				}
			}
		}
	}
	return out
}

// mappings are what a merge key names: a mapping, or a list of them.
func (t *tidier) mappings(from *yaml.Node, key string) []*yaml.Node {
	all := []*yaml.Node{t.tidy(from, key)}
	if all[0] != nil && all[0].Kind == yaml.SequenceNode {
		all = all[0].Content
	}
	if slices.ContainsFunc(all, func(m *yaml.Node) bool { return m == nil || m.Kind != yaml.MappingNode }) {
		t.refuse(strings.TrimPrefix(key+".<<", "."), from.Line, "want a mapping, or a list of them")
		return nil
	}
	return all
}

// child is the value of a key of a mapping, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name && !isNull(n.Content[i+1]) {
			return n.Content[i+1]
		}
	}
	return nil
}

// describe names a value by its kind, since it may contain a secret.
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

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// textOf is a single value as a text: that of ~ and null is empty.
func textOf(n *yaml.Node) string {
	if isNull(n) {
		return ""
	}
	return n.Value
}

// canonical is a tidied node as YAML.
func canonical(n *yaml.Node) string {
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if encoder.Encode(n) != nil || encoder.Close() != nil { // neither fails for what was decoded
		return mask + "\n"
	}
	return out.String()
}
