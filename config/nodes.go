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
