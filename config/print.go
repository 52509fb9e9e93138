package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Origin returns the origin of the value of the setting called key: "default", "environment
// VITRINE_TTL", "flag --ttl", "vitrine.yaml:12". It is empty for an unknown key.
func (c Config) Origin(key string) string {
	if o, ok := c.origins[key]; ok {
		return o.String()
	}
	return ""
}

// Refuse returns an error of Load's kind about the value of the setting called key, for a problem
// that is found only later, when the address or file is opened.
func (c Config) Refuse(key string, why error) error {
	s, ok := Lookup(key)
	if !ok {
		return why
	}
	return refuse(s, given{text: s.text(&c), written: c.written[key], origin: c.origins[key]}, why)
}

// RefuseBelow is Refuse for a value below a tree, by its whole key,
// upstream.resources.banners.parts[0].map, and the line of its text; 0 is that of the value. A
// value that was not given is placed where the next one above it is.
func (c Config) RefuseBelow(key string, line int, why error) error {
	o, ok := c.origins[key]
	if !ok {
		for above := key; !ok && above != ""; o, ok = c.origins[above] {
			above = above[:max(0, strings.LastIndexAny(above, ".["))]
		}
		o.name = key
	} else if line > 0 {
		o.line += line - 1 + o.text
	}
	return mistake(o, "%s", why)
}

// A Change is a setting whose value changed. Its texts contain no secret.
type Change struct {
	Key      string
	From, To string
	// Origin is the origin of the new value, as in [Config.Origin].
	Origin string
}

// Changes lists the settings of c that differ from before, in the order of the table.
func (c Config) Changes(before Config) []Change {
	var out []Change
	for _, s := range settings {
		if !reflect.DeepEqual(s.field(&before).Interface(), s.field(&c).Interface()) {
			from, _ := s.shown(&before)
			to, _ := s.shown(&c)
			out = append(out, Change{Key: s.Key, From: strings.TrimSpace(from), To: strings.TrimSpace(to), Origin: c.Origin(s.Key)})
		}
	}
	return out
}

// Fingerprint distinguishes this configuration from others, whatever the origins of its values.
// Secrets do not count, so that they cannot be guessed from it.
func (c Config) Fingerprint() string {
	hash := sha256.New()
	for _, s := range settings {
		value, _ := s.shown(&c)
		_, _ = fmt.Fprintf(hash, "%s: %q %q\n", s.Key, value, c.trees[s.Key].shown)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// YAML returns the configuration as a file, with the origin of each value as a comment. [Load]
// reads it back as the same configuration, except for secrets, which are masked and in comments.
func (c Config) YAML() []byte {
	var out strings.Builder
	out.WriteString("# The configuration in effect. Secrets are masked, and in comments.\n")
	var open []string // the groups of the last line
	for _, s := range settings {
		if c.isRedundant(s) {
			continue
		}
		parts := strings.Split(s.Key, ".")
		groups, name := parts[:len(parts)-1], parts[len(parts)-1]
		for depth, group := range groups {
			if !slices.Equal(open[:min(depth+1, len(open))], groups[:depth+1]) {
				fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), group)
			}
		}
		open = groups
		origin := c.Origin(s.Key)
		if s.Inherits != "" && c.origins[s.Key] == c.origins[s.Inherits] {
			origin = "as " + s.Inherits
		}
		indent := strings.Repeat("  ", len(groups))
		value, hides := s.shown(&c)
		if hides {
			indent += "# "
		} else if !s.isTree() && !s.is(0) && !s.is(Size(0)) && !s.is(Share(0)) { // numbers need no quotes
			value = scalar(value)
		}
		if !s.isTree() {
			fmt.Fprintf(&out, "%s%s: %s # %s\n", indent, name, value, origin)
			continue
		}
		fmt.Fprintf(&out, "%s%s: # %s\n", indent, name, origin)
		for line := range strings.Lines(value) {
			if line != "\n" {
				line = indent + "  " + line
			}
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}

// isRedundant reports whether s is empty, or repeats the setting of the other kind (value or file).
func (c Config) isRedundant(s Setting) bool {
	if slices.ContainsFunc(settings, func(file Setting) bool { return file.holds == s.Key && file.text(&c) != "" }) {
		return true
	}
	return s.text(&c) == "" && (s.Default == "" || s.holds != "")
}

// shown returns the value as it was written, and whether that hides a secret: then it is printed as
// a comment, a tree as a whole, since it would not mean the same without it.
func (s Setting) shown(c *Config) (text string, hides bool) {
	if s.isTree() {
		tree := c.trees[s.Key]
		return tree.shown, tree.hides
	}
	text = s.text(c)
	switch written := c.written[s.Key]; {
	case s.isHidden() && text != "":
		return mask, true
	case written != "":
		return written, false
	case s.is(URL{}):
		return maskURL(text), maskURL(text) != text
	}
	return text, false
}

// scalar writes text as YAML that reads back as the same text.
func scalar(text string) string {
	encoded, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	line := strings.TrimSuffix(string(encoded), "\n")
	if strings.Contains(line, "\n") { // a block, which no comment can follow
		return fmt.Sprintf("%q", text)
	}
	return line
}
