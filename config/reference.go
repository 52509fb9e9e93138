package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// placeholder is one of a target's, in its path, header fields and body.
var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// reader reads texts of a tree, and knows the secrets among them.
type reader struct {
	environ []string // for references
	secrets []string // in the texts read
	masked  bool     // a secret was masked in its node
}

// text is the text of n with its references replaced. One that is a secret by its name is masked in
// n.
func (r *reader) text(n *yaml.Node, key string) (string, error) {
	text, found, err := r.expand(textOf(n))
	if isTargetURL(key) {
		r.maskTarget(n, text)
	}
	switch {
	case err != nil:
		return "", err
	case len(found) > 0:
		r.secrets = append(r.secrets, found...)
	case strings.HasPrefix(key, "notify[") && placeholder.MatchString(text): // Bearer {token}
	case text != "" && (isSecret(key) || key == "upstream.shared.login.body"):
		r.mask(n, mask, text)
	}
	if strings.HasSuffix(key, ".path") || strings.HasSuffix(key, ".url") || strings.HasSuffix(key, ".media") {
		if shown, literal := maskQuery(n.Value); len(literal) > 0 {
			r.mask(n, shown, literal...)
		}
	}
	return text, nil
}

func (r *reader) mask(n *yaml.Node, shown string, secrets ...string) {
	r.secrets, r.masked = append(r.secrets, secrets...), true
	n.Value, n.Style, n.Tag = shown, 0, "!!str"
}

func isTargetURL(key string) bool {
	return strings.HasPrefix(key, "notify[") && strings.HasSuffix(key, ".url")
}

// upToPath is a URL up to its path, in which references have slashes of their own.
var upToPath = regexp.MustCompile(`^(\w+://)?(\$\{[^}]*\}|[^/?#])*`)

// maskTarget masks what follows the host in a target's URL, unless it is references alone: at most
// chats, whoever knows it can write there.
func (r *reader) maskTarget(n *yaml.Node, text string) {
	host := upToPath.FindString(n.Value)
	if path := n.Value[len(host):]; strings.Trim(reference.ReplaceAllString(path, ""), "/") != "" {
		_, literal := maskQuery(path)
		r.mask(n, host+"/"+mask, append(literal, text[len(upToPath.FindString(text)):])...)
	}
}

// maskQuery masks the query of a path if there are secrets in it that are not references, and
// returns them. It reads a query that cannot be parsed, too, which nobody has refused yet.
func maskQuery(path string) (shown string, secrets []string) {
	before, query, _ := strings.Cut(path, "?")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		if plain, err := url.QueryUnescape(pair); err == nil {
			pair = plain
		}
		name, value, _ := strings.Cut(pair, "=")
		if literal := reference.ReplaceAllString(value, ""); literal != "" && isSecret(name) {
			secrets = append(secrets, literal)
		}
	}
	if len(secrets) > 0 {
		return before + "?" + mask, secrets
	}
	return path, nil
}

// reference is ${env:NAME} or ${file:PATH}.
var reference = regexp.MustCompile(`\$\{(\w+):([^}]*)\}`)

// expand replaces references, and returns their values.
func (r *reader) expand(written string) (text string, found []string, err error) {
	text = reference.ReplaceAllStringFunc(written, func(ref string) string {
		parts := reference.FindStringSubmatch(ref)
		value, wrong := refer(parts[1], parts[2], r.environ)
		if wrong != nil {
			err = fmt.Errorf("want ${env:NAME} or ${file:PATH} of a value, got %s: %w", ref, wrong)
		}
		found = append(found, value)
		return value
	})
	return text, found, err
}

// refer returns what a reference stands for.
func refer(kind, name string, environ []string) (string, error) {
	switch kind {
	case "file":
		return readSecret(name)
	case "env":
		if value := variable(environ, name); value != "" {
			return value, nil
		}
		return "", errors.New("it is not set")
	}
	return "", errors.New("there is no such kind")
}

// variable is the value of name in an environment, the last one, or "".
func variable(environ []string, name string) (value string) {
	for _, line := range environ {
		if text, ok := strings.CutPrefix(line, name+"="); ok {
			value = text
		}
	}
	return value
}
