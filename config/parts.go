package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parts is a list of parts as written in the file. Package upstream interprets it.
type Parts struct {
	// YAML is the list without comments and aliases.
	YAML string
	// Node is the same, with the lines of the file. It is shared; do not modify it. Nil: there are
	// none.
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

// bare copies n without comments, aliases and redundant tags.
func bare(n *yaml.Node, depth int) *yaml.Node {
	const deepest = 16 // an alias can contain itself
	if depth > deepest {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	if n.Kind == yaml.AliasNode {
		return bare(n.Alias, depth+1)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line}
	for _, inner := range n.Content {
		c.Content = append(c.Content, bare(inner, depth+1))
	}
	return c
}

// secretive are the names of parameters and headers whose values may be secrets.
var secretive = regexp.MustCompile(`(?i)token|key|secret|pass|auth|cookie|session|signature`)

// masked returns the canonical form with such values masked, and whether there were any.
func (p Parts) masked() (text string, hides bool) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(p.YAML), &document); err != nil || len(document.Content) == 0 {
		return "", false // there is none, or it would have been refused
	}
	hide := func(n *yaml.Node, text string) { n.Value, n.Style, hides = text, 0, true }
	for _, part := range document.Content[0].Content {
		for i := 0; i+1 < len(part.Content); i += 2 {
			value := part.Content[i+1]
			switch part.Content[i].Value {
			case "path":
				if before, query, ok := strings.Cut(value.Value, "?"); ok && secretive.MatchString(query) {
					hide(value, before+"?"+mask)
				}
			case "headers", "query":
				for j := 0; j+1 < len(value.Content); j += 2 {
					if !secretive.MatchString(value.Content[j].Value) {
						continue
					}
					hide(value.Content[j+1], mask) // also a list of strings
					value.Content[j+1].Kind, value.Content[j+1].Tag, value.Content[j+1].Content = yaml.ScalarNode, "!!str", nil
				}
			}
		}
	}
	text, err := canonical(document.Content[0])
	if err != nil {
		return mask, true
	}
	return text, hides
}
