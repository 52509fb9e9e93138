package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Part is one list, or one answer, that a resource is made from. What is zero
// or empty is left to the preset.
type Part struct {
	// Name is the member of the document that it becomes.
	Name string
	// Path is relative to [Upstream.URL].
	Path string
	// Query is sent with each request. Nil: what the preset sends.
	Query url.Values
	// Headers are sent with each request.
	Headers map[string]string
	// Paging says how the list goes on.
	Paging Paging
	// Items, Map are jq programs.
	Items, Map string
	// IDs is document or number.
	IDs string
}

// Paging says how a list goes on after its first answer.
type Paging struct {
	// Style is none, page, offset, link, cursor or header.
	Style string
	// Param and SizeParam are names of query parameters.
	Param, SizeParam string
	// Size is how many items are asked for at once.
	Size int
	// First is the number of the first page. Nil: 1.
	First *int
	// Total, Next are jq programs.
	Total, Next string
	// Hosts are names that the CMS gives itself in links.
	Hosts []string
	// MaxPages, MaxItems and Walks bound a walk.
	MaxPages, MaxItems, Walks int
	// Confirm walks until two walks agree.
	Confirm bool
}

// Parts is a list of parts.
type Parts struct {
	// List is shared by all copies of the Config, and not to be written to.
	List []Part
	// YAML is what List was read from, without comments.
	YAML string
}

// partFields and pagingFields are what a part may say, in the order of the
// documentation. Each reads its value.
var (
	partFields = []field[Part]{
		{"name", func(p *Part, n *yaml.Node) error { return text(&p.Name, n) }},
		{"path", func(p *Part, n *yaml.Node) error { return partPath(&p.Path, n) }},
		{"query", func(p *Part, n *yaml.Node) error { return query(&p.Query, n) }},
		{"headers", func(p *Part, n *yaml.Node) error { return headers(&p.Headers, n) }},
		{"paging", func(p *Part, n *yaml.Node) error { return mapped(n, "paging", pagingFields, &p.Paging) }},
		{"items", func(p *Part, n *yaml.Node) error { return text(&p.Items, n) }},
		{"ids", func(p *Part, n *yaml.Node) error { return word(&p.IDs, n, "document", "number") }},
		{"map", func(p *Part, n *yaml.Node) error { return text(&p.Map, n) }},
	}
	pagingFields = []field[Paging]{
		{"style", func(p *Paging, n *yaml.Node) error {
			return word(&p.Style, n, "none", "page", "offset", "link", "cursor", "header")
		}},
		{"param", func(p *Paging, n *yaml.Node) error { return text(&p.Param, n) }},
		{"size_param", func(p *Paging, n *yaml.Node) error { return text(&p.SizeParam, n) }},
		{"size", func(p *Paging, n *yaml.Node) error { return whole(&p.Size, n, 1, 100_000) }},
		{"first", func(p *Paging, n *yaml.Node) error {
			p.First = new(int)
			return whole(p.First, n, 0, 1)
		}},
		{"total", func(p *Paging, n *yaml.Node) error { return text(&p.Total, n) }},
		{"next", func(p *Paging, n *yaml.Node) error { return text(&p.Next, n) }},
		{"hosts", func(p *Paging, n *yaml.Node) error { return list(&p.Hosts, n) }},
		{"max_pages", func(p *Paging, n *yaml.Node) error { return whole(&p.MaxPages, n, 1, 1_000_000) }},
		{"max_items", func(p *Paging, n *yaml.Node) error { return whole(&p.MaxItems, n, 1, 10_000_000) }},
		{"walks", func(p *Paging, n *yaml.Node) error { return whole(&p.Walks, n, 1, 20) }},
		{"confirm", func(p *Paging, n *yaml.Node) error { return truth(&p.Confirm, n) }},
	}
)

// set reads the canonical form again, which has been read before.
func (p *Parts) set(text string) error {
	*p = Parts{YAML: text}
	if text == "" {
		return nil
	}
	var document yaml.Node
	err := yaml.Unmarshal([]byte(text), &document)
	if err == nil {
		p.List, err = parseParts(document.Content[0])
	}
	return err
}

// canonical is n as YAML without comments and aliases.
func canonical(n *yaml.Node) (string, error) {
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(bare(n, 0)); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

// bare copies n without comments, aliases and tags of no consequence.
func bare(n *yaml.Node, depth int) *yaml.Node {
	const deepest = 16 // an alias may hold itself
	if depth > deepest {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	if n.Kind == yaml.AliasNode {
		return bare(n.Alias, depth+1)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	for _, inner := range n.Content {
		c.Content = append(c.Content, bare(inner, depth+1))
	}
	return c
}

// secretive are the names of parameters and headers whose values may be secrets.
var secretive = regexp.MustCompile(`(?i)token|key|secret|pass|auth|cookie|session|signature`)

// masked is the canonical form with such values masked, and whether there were any.
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
					hide(value.Content[j+1], mask) // a list of texts as well
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

// parseParts reads the list of parts. Its error is the first mistake, a *nodeError.
func parseParts(n *yaml.Node) ([]Part, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, &nodeError{"", n.Line, fmt.Errorf("want a list of parts, got %s", describeEmpty(n))}
	}
	parts := make([]Part, len(n.Content))
	for i, item := range n.Content {
		key := "[" + strconv.Itoa(i) + "]"
		if err := mapped(item, "part", partFields, &parts[i]); err != nil {
			return nil, below(key, item.Line, err)
		}
	}
	return parts, nil
}
