package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// Parts is a list of parts, or what all parts share, as written in the file. Package upstream
// interprets it.
type Parts struct {
	// YAML is the value without comments and aliases.
	YAML string
	// Node is the same, with the lines of the file, and with the secrets that it refers to. It is
	// shared; do not modify it. Nil: there is none.
	Node *yaml.Node
}

// canonical is a bare node as YAML.
func canonical(n *yaml.Node) (string, error) {
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

// maxValues bounds a setting's values, with those of aliases, which can be of aliases in turn, or
// contain themselves.
const maxValues = 10_000

// bare copies n without comments, aliases and redundant tags. The values left include its own.
func bare(n *yaml.Node, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("want at most %d values, those of aliases included", maxValues)
	}
	if n.Kind == yaml.AliasNode {
		return bare(n.Alias, left)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line}
	for _, inner := range n.Content {
		b, err := bare(inner, left)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, b)
	}
	return c, nil
}

// reference is ${env:NAME} or ${file:PATH}.
var reference = regexp.MustCompile(`\$\{(\w+):([^}]*)\}`)

// programs are the keys whose values are jq, in which nothing is replaced.
var programs = []string{"map", "items", "id", "total", "next", "def"}

// expand replaces references in the values of n. On an error it returns the node, too.
func expand(n *yaml.Node, environ []string) (at *yaml.Node, err error) {
	for i, inner := range n.Content {
		if n.Kind == yaml.MappingNode && (i%2 == 0 || slices.Contains(programs, n.Content[i-1].Value)) {
			continue
		}
		if at, err := expand(inner, environ); err != nil {
			return at, err
		}
	}
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "${") {
		return nil, nil //nolint:nilnil // nothing to do
	}
	n.Value = reference.ReplaceAllStringFunc(n.Value, func(text string) string {
		found := reference.FindStringSubmatch(text)
		value, wrong := refer(found[1], found[2], environ)
		if wrong != nil {
			err = fmt.Errorf("want ${env:NAME} or ${file:PATH} of a value, got %s: %w", text, wrong)
		}
		return value
	})
	n.Tag, n.Style = "!!str", 0
	return n, err
}

// refer returns what a reference stands for.
func refer(kind, name string, environ []string) (string, error) {
	switch kind {
	case "file":
		return readSecret(name)
	case "env":
		if value := Variable(environ, name); value != "" {
			return value, nil
		}
		return "", errors.New("it is not set")
	}
	return "", errors.New("there is no such kind")
}

// Variable is the value of name in an environment, or "".
func Variable(environ []string, name string) string {
	for _, line := range environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}

// secretive are the names of parameters, headers and settings whose values may be secrets.
var secretive = regexp.MustCompile(`(?i)token|key|secret|pass|auth|cookie|session|signature`)

// masked returns the canonical form with such values masked, and whether there were any.
func (p Parts) masked() (text string, hides bool) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(p.YAML), &document); err != nil || len(document.Content) == 0 {
		return "", false // there is none, or it would have been refused
	}
	hides = maskNode(document.Content[0])
	text, err := canonical(document.Content[0])
	if err != nil {
		return mask, true
	}
	return text, hides
}

// maskNode masks the values of n that may be secrets. A reference to one is not.
func maskNode(n *yaml.Node) (hides bool) {
	for i, value := range n.Content {
		if n.Kind != yaml.MappingNode {
			hides = maskNode(value) || hides
			continue
		}
		if i%2 == 0 {
			continue
		}
		name := n.Content[i-1].Value
		before, query, isURL := strings.Cut(value.Value, "?")
		switch {
		case slices.Contains(programs, name):
		case (name == "path" || name == "url") && isURL && secretive.MatchString(query):
			value.Value, value.Style, hides = before+"?"+mask, 0, true
		case secretive.MatchString(name) && !strings.HasSuffix(name, "_url") && reference.ReplaceAllString(value.Value, "") != "" || secretive.MatchString(name) && value.Kind == yaml.SequenceNode:
			*value = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: mask} // also a list of strings
			hides = true
		default:
			hides = maskNode(value) || hides
		}
	}
	return hides
}

// secretLimit bounds a file with one value. 64 KiB is far more than any header or URL, and keeps a
// wrong path from filling memory.
const secretLimit = 64 << 10

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", cause(err)
	}
	defer file.Close()                                              //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, secretLimit+1)) // a device or a pipe does not say how much it has
	text := strings.TrimSpace(string(content))
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "", errors.New("it is a folder")
	case err == nil && len(content) > secretLimit:
		return "", fmt.Errorf("it has more than %s", Size(secretLimit))
	case err == nil && text == "":
		return "", errors.New("it is empty")
	}
	return text, cause(err)
}
