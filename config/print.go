package config

import (
	"fmt"
	"slices"
	"strconv"
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
	return refuse(s, given{text: s.text(&c), origin: c.origins[key]}, why)
}

// RefuseBelow is Refuse for a value below a group of settings, by its path there,
// upstream.resources.banners and parts[0].map, and its line in the file; 0 is that of the setting.
func (c Config) RefuseBelow(group, path string, line int, why error) error {
	name := path[:len(path)-len(strings.TrimLeft(path, "abcdefghijklmnopqrstuvwxyz_"))]
	o := c.origins[group+"."+name]
	o.name = group + "." + path
	if file := strings.LastIndexByte(o.file, ':'); line > 0 && file >= 0 {
		o.file = o.file[:file+1] + strconv.Itoa(line)
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
		if from, to := s.text(&before), s.text(&c); from != to {
			out = append(out, Change{Key: s.Key, From: s.show(given{text: from}), To: s.show(given{text: to}), Origin: c.Origin(s.Key)})
		}
	}
	return out
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
		value, hides := s.printed(&c)
		if hides {
			indent += "# "
		}
		if !s.isParts() {
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

// printed returns the value as YAML, and whether that hides a secret: then it goes into a comment,
// parts as a whole, since they would not mean the same without it.
func (s Setting) printed(c *Config) (text string, hides bool) {
	switch field := s.field(c).(type) {
	case *Secret:
		return field.String(), true
	case *URL:
		if field.Hides() {
			return field.String(), true
		}
	case *Parts:
		return field.masked()
	case *int, *Size: // numbers, or text that needs no quotes
		return s.text(c), false
	}
	return scalar(s.text(c)), false
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
