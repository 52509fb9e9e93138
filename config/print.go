package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
		shared := 0
		for shared < len(open) && shared < len(groups) && open[shared] == groups[shared] {
			shared++
		}
		for depth := shared; depth < len(groups); depth++ {
			fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), groups[depth])
		}
		open = groups
		if s.isParts() {
			out.WriteString(c.block(s, name, strings.Repeat("  ", len(groups))))
			continue
		}
		fmt.Fprintf(&out, "%s%s\n", strings.Repeat("  ", len(groups)), c.line(s, name))
	}
	return []byte(out.String())
}

// isRedundant reports whether s is empty, or repeats the setting of the other kind (value or file).
func (c Config) isRedundant(s Setting) bool {
	if s.contents != "" {
		return s.text(&c) == ""
	}
	for _, file := range settings {
		if file.contents == s.Key && file.text(&c) != "" {
			return true
		}
	}
	return s.text(&c) == "" && s.Default == ""
}

// line is one setting without its indentation.
func (c Config) line(s Setting, name string) string {
	origin := c.Origin(s.Key)
	if s.inherits != "" && c.origins[s.Key] == c.origins[s.inherits] {
		origin = "as " + s.inherits
	}
	text := s.text(&c)
	switch field := s.field(&c).(type) {
	case *Secret:
		return fmt.Sprintf("# %s: %s # %s", name, mask, origin)
	case *URL:
		if field.Hides() {
			return fmt.Sprintf("# %s: %s # %s", name, field, origin)
		}
		text = scalar(text)
	case *int, *Size: // numbers, or text that needs no quotes
	default:
		text = scalar(text)
	}
	return fmt.Sprintf("%s: %s # %s", name, text, origin)
}

// block is a setting that is a list of parts. If one may contain a secret, the whole block is in
// comments, since it would not mean the same without it.
func (c Config) block(s Setting, name, indent string) string {
	parts, ok := s.field(&c).(*Parts)
	if !ok {
		return ""
	}
	shown, hides := parts.masked()
	if hides {
		indent += "# "
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s: # %s\n", indent, name, c.Origin(s.Key))
	for line := range strings.Lines(shown) {
		if strings.TrimSpace(line) == "" {
			out.WriteString("\n")
			continue
		}
		out.WriteString(indent + "  " + line)
	}
	return out.String()
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

// Markdown is the table of all settings for the documentation.
func Markdown() string {
	var out strings.Builder
	out.WriteString("| in the file | environment | flag | default | allowed | meaning |\n")
	out.WriteString("|---|---|---|---|---|---|\n")
	for _, s := range settings {
		env, flag, preset := code(s.Env), "", code(s.Default)
		if s.Flag != "" {
			flag = code("--" + s.Flag)
		}
		if s.inherits != "" {
			preset = "as " + code(s.inherits)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n",
			code(s.Key), env, flag, preset, cell(s.Allowed()), cell(s.Doc))
	}
	return out.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cell escapes characters that would end or format a table's cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text)
}
