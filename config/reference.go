package config

import (
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
)

// reference is ${NAME}, or $${ for ${ itself.
var (
	reference    = regexp.MustCompile(`\$?\$\{[^}]*\}?`)
	variableName = regexp.MustCompile(`^\$\{(\w+)\}$`)
)

// text is a scalar's text with its references replaced, unless one of them stands for nothing, which
// it refuses. There are none in a jq program.
func (d *decoder) text(n *yaml.Node, key string, tag reflect.StructTag) (text string, ok bool) {
	is := tag.Get("is")
	if isNull(n) { // ~ or null
		return "", true
	} else if is == "jq program" || is == "predicate" {
		return n.Value, true
	}
	ok = true
	text = reference.ReplaceAllStringFunc(n.Value, func(ref string) (value string) {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		if name := variableName.FindStringSubmatch(ref); name != nil {
			value = d.variables[name[1]]
		} else {
			ref = "another form of it; a NAME has letters, digits and _"
		}
		if value == "" {
			ok = false
			d.refuse(key, d.places[key].line, "want ${NAME} of a variable that is set and not empty, or $${ for ${ itself; got %s", ref)
		}
		d.hide(key, value)
		return value
	})
	switch delete(d.written, key); {
	case is == "target's path":
		if d.bundled {
			d.written[key] = n.Value
		} else {
			for _, word := range source.Words(text) {
				d.hide(key, word)
			}
		}
	case is == "target's URL":
		d.written[key] = source.Host(n.Value)
		d.hide(key, strings.TrimPrefix(text, strings.TrimSuffix(source.Host(text), "/***")))
	case is == "header" && !d.bundled && !source.IsPublic(key) && !placeholder.MatchString(text): // it may be a secret in part
		if d.hide(key, text); variableName.MatchString(n.Value) {
			d.written[key] = n.Value
		}
	case text != n.Value || is == "header": // Bearer {token}
		d.written[key] = n.Value
	}
	return text, ok
}

// hide keeps a secret of a mapping for those who mask it in errors.
func (d *decoder) hide(key, secret string) {
	if tree := strings.HasPrefix(key, "upstream.shared.") || strings.HasPrefix(key, "upstream.resources.") || strings.HasPrefix(key, "notify["); tree && len(secret) > 1 {
		d.secrets = append(d.secrets, secret)
	}
}
