package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
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

// field is one key of a mapping in the file.
type field[T any] struct {
	name string
	read func(*T, *yaml.Node) error
}

// nodeError is a mistake below the key of a setting: where, and on which line.
type nodeError struct {
	key  string // [0].paging.size
	line int
	err  error
}

func (e *nodeError) Error() string { return e.err.Error() }

// below puts a mistake one level down.
func below(key string, line int, err error) error {
	var deeper *nodeError
	if errors.As(err, &deeper) {
		return &nodeError{key + deeper.key, deeper.line, deeper.err}
	}
	return &nodeError{key, line, err}
}

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
func (p Parts) masked() (yaml string, any bool) {
	lines := strings.SplitAfter(p.YAML, "\n")
	values := map[string]bool{}
	for _, part := range p.List {
		for name, value := range part.Headers {
			if secretive.MatchString(name) {
				values[value] = true
			}
		}
		for name, all := range part.Query {
			if secretive.MatchString(name) {
				for _, value := range all {
					values[value] = true
				}
			}
		}
		if _, inPath, ok := strings.Cut(part.Path, "?"); ok && secretive.MatchString(inPath) {
			values[inPath] = true
		}
	}
	for i, line := range lines {
		for value := range values {
			if value != "" && strings.Contains(line, value) {
				lines[i] = strings.ReplaceAll(line, value, mask)
				line = lines[i]
			}
		}
	}
	return strings.Join(lines, ""), len(values) > 0
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

func describeEmpty(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "an empty list"
	}
	return describe(n)
}

// mapped reads a mapping whose keys are those of fields.
func mapped[T any](n *yaml.Node, what string, fields []field[T], to *T) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("want a %s (%s), got %s", what, strings.Join(known, ", "), describe(n))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		line := n.Content[i].Line
		at := slices.Index(known, name)
		switch {
		case at < 0:
			problem := "no such setting; known here are " + strings.Join(known, ", ")
			if near := nearest(name, len(name), known); near != "" {
				problem = "no such setting; did you mean " + near + "?"
			}
			return &nodeError{"." + name, line, errors.New(problem)}
		case seen[name]:
			return &nodeError{"." + name, line, errors.New("want it once, got it again")}
		case isNull(value): // a key without a value says nothing
			continue
		}
		seen[name] = true
		if err := fields[at].read(to, value); err != nil {
			return below("."+name, line, err)
		}
	}
	return nil
}

func scalarOf(n *yaml.Node, want string) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("want %s, got %s", want, describe(n))
	}
	return n.Value, nil
}

func text(to *string, n *yaml.Node) (err error) {
	*to, err = scalarOf(n, "a text")
	if err == nil && strings.TrimSpace(*to) == "" {
		return errors.New("want a text, got nothing")
	}
	return err
}

func partPath(to *string, n *yaml.Node) error {
	const want = "a path without host or .. that is relative to the upstream URL"
	path, err := scalarOf(n, want)
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(path, "?") // a query is welcome here
	if before == "" || checkPath(before) != nil {
		return fmt.Errorf("want %s, got %q", want, before)
	}
	*to = path
	return nil
}

func word(to *string, n *yaml.Node, words ...string) error {
	got, err := scalarOf(n, orList(words))
	if err == nil && !slices.Contains(words, got) {
		err = fmt.Errorf("want %s, got %q", orList(words), got)
	}
	*to = got
	return err
}

func whole(to *int, n *yaml.Node, least, most int) error {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	got, err := scalarOf(n, want)
	if err != nil {
		return err
	}
	if *to, err = strconv.Atoi(got); err != nil || *to < least || *to > most {
		return fmt.Errorf("want %s, got %q", want, got)
	}
	return nil
}

func truth(to *bool, n *yaml.Node) error {
	got, err := scalarOf(n, "true or false")
	if err == nil && got != "true" && got != "false" {
		err = fmt.Errorf("want true or false, got %q", got)
	}
	*to = got == "true"
	return err
}

func list(to *[]string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*to = splitList(n.Value)
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("want a list, got %s", describe(n))
	}
	for _, item := range n.Content {
		one, err := scalarOf(item, "a list of texts")
		if err != nil {
			return err
		}
		*to = append(*to, one)
	}
	return nil
}

// query reads parameters: each a text, or a list of texts.
func query(to *url.Values, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("want parameters and their values, got %s", describe(n))
	}
	*to = url.Values{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		var values []string
		switch value := n.Content[i+1]; value.Kind {
		case yaml.ScalarNode:
			values = []string{value.Value}
		default:
			if err := list(&values, value); err != nil {
				return below("."+n.Content[i].Value, n.Content[i].Line, err)
			}
		}
		(*to)[n.Content[i].Value] = values
	}
	return nil
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func headers(to *map[string]string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("want headers and their values, got %s", describe(n))
	}
	*to = map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, line := n.Content[i].Value, n.Content[i].Line
		value, err := scalarOf(n.Content[i+1], "a text")
		switch {
		case !headerName.MatchString(name):
			err = fmt.Errorf("want the name of a header, got %q", name)
		case strings.EqualFold(name, "Authorization"):
			err = errors.New("want upstream.authorization for this")
		case err == nil && checkHeader(value) != nil:
			err = checkHeader(value)
		}
		if err != nil {
			return below("."+name, line, err)
		}
		(*to)[name] = value
	}
	return nil
}
