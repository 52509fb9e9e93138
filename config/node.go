package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	// tags are those of values that mean what they look like. Another program's, such as !env, would
	// be taken for the text after it.
	tags    = []string{"", "!", "!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp"}
	foreign = regexp.MustCompile("['`].*['`]")
	tab     = regexp.MustCompile(`(?m)^ *\t+ *[^\s#]`)
)

// document returns the root of the only document in content, or nil if it is empty. Of the library's
// own errors, what they quote is left out: it may be a secret. Two do not help as they stand.
func document(content []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	var line int
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // see above
	case err != nil && tab.Match(content):
		return nil, fmt.Errorf("line %d is indented by a tab, want spaces", lineOf(content, tab.FindIndex(content)[1]))
	case err != nil:
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		if name := strings.Trim(foreign.FindString(text), "'`"); strings.Contains(text, "anchor") {
			text = fmt.Sprintf("line %d: %s; a text that begins with * or & wants quotes", lineOf(content, bytes.Index(content, []byte(name))), text)
		}
		if at, _ := fmt.Sscanf(text, "line %d: did not find", &line); at > 0 && strings.Contains(text, "did not find") { // it is the line before
			text = fmt.Sprintf("line %d, or one below it, is not indented as those beside it, or a bracket is open", line+1)
		}
		return nil, errors.New(foreign.ReplaceAllString(text, "…"))
	case !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		return nil, errors.New("it contains more than one document")
	}
	root := document.Content[0]
	if isNull(root) {
		return nil, nil //nolint:nilnil // see above
	} else if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping of settings, but " + describe(root))
	}
	return root, nil
}

// lineOf is the line of the byte at that place.
func lineOf(content []byte, at int) int { return bytes.Count(content[:max(0, at)], []byte("\n")) + 1 }

// isPlain refuses a value whose tag or alias means something else than what stands there.
func (d *decoder) isPlain(n *yaml.Node, key string, line int) bool {
	ok := n.Kind != yaml.AliasNode && slices.Contains(tags, n.ShortTag())
	if !ok {
		d.refuse(key, line, "want a value that stands here, not an alias or one with a tag such as !!binary; ${NAME} stands for a variable's")
	}
	return ok
}

// pair is a key of a mapping and its value.
type pair struct{ name, value *yaml.Node }

// pairs are those of a mapping. In the names of header fields, case does not count.
func (d *decoder) pairs(n *yaml.Node, key string, areHeaders bool) (all []pair) {
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		id := name.Value
		if areHeaders {
			id = strings.ToLower(id)
		}
		switch first, again := lines[id]; {
		case name.Kind != yaml.ScalarNode, name.ShortTag() == "!!merge":
			d.refuse(key, name.Line, "want keys that are texts, not << nor lists or mappings")
			continue
		case areHeaders && !headerName.MatchString(id):
			d.refuse(key, name.Line, "want the name of a header field, got %q", name.Value)
			continue
		case again:
			d.refuse(strings.TrimPrefix(key+"."+name.Value, "."), name.Line, "already set on line %d", first)
			continue
		}
		lines[id] = name.Line
		all = append(all, pair{name, n.Content[i+1]})
	}
	return all
}

// child is the text of a key of a mapping; "" for none.
func child(all []pair, name string) string {
	if i := slices.IndexFunc(all, func(p pair) bool { return p.name.Value == name && !isNull(p.value) }); i >= 0 {
		return all[i].value.Value
	}
	return ""
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
