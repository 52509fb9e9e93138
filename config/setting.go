package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Setting is one row of the table: everything that the file, the environment, the flags, the
// documentation and the error messages know about it.
type Setting struct {
	// Key is its place in the YAML file: upstream.timeout.
	Key string
	// Env is its environment variable. Empty: it can be set in the file only.
	Env string
	// Flag is its flag without the dashes. Empty: there is none.
	Flag string
	// Default is the default value, as text.
	Default string
	// Doc is one line for operators.
	Doc string

	allowed  string              // what an error asks for; for numbers it is derived from min and max
	min, max int64               // bounds of a number, a size, or a duration in nanoseconds
	optional bool                // empty is a value, not the default
	inherits string              // the key whose value is the default of this one
	contents string              // this setting names a file with the value of that key
	check    func(string) error  // for text; nil accepts anything but the empty text
	field    func(c *Config) any // where the value goes; the pointer's type is the setting's kind
	words    []string            // the only texts allowed, if any
}

// Words returns the values of a setting that has a fixed list of them, or nil.
func (s Setting) Words() []string { return slices.Clone(s.words) }

// isHidden reports whether no part of the value is ever shown.
func (s Setting) isHidden() bool {
	_, ok := s.field(new(Config)).(*Secret)
	return ok
}

// Allowed describes the values of the setting: "a duration from 10ms to 8760h".
func (s Setting) Allowed() string {
	allowed := s.allowed
	switch s.field(new(Config)).(type) {
	case *time.Duration:
		allowed = "a duration from " + formatDuration(time.Duration(s.min)) + " to " + formatDuration(time.Duration(s.max))
	case *int:
		allowed = fmt.Sprintf("a whole number from %d to %d", s.min, s.max)
	case *Size:
		allowed = fmt.Sprintf("a size from %s to %s", Size(s.min), Size(s.max))
	}
	if len(s.words) > 0 {
		allowed = orList(s.words)
	}
	if s.optional && s.Default != "" {
		allowed += ", or empty"
	}
	return allowed
}

// set parses a value into its place in c. The reason of a failure contains no part of a secret and
// can be empty.
func (s Setting) set(c *Config, g given) error {
	text := g.text
	switch field := s.field(c).(type) {
	case *string:
		*field = text
	case *Secret:
		*field = NewSecret(text)
	case *URL:
		*field = NewURL(text)
	case *[]string:
		*field = splitList(text)
	case *Parts:
		*field = Parts{YAML: text, Node: g.node}
		return nil
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			if _, bare := strconv.ParseFloat(text, 64); bare == nil {
				return fmt.Errorf("a unit is missing, as in %ss", text)
			}
			return errUnsaid
		}
		if int64(d) < s.min || int64(d) > s.max {
			return errUnsaid
		}
		*field = d
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil || int64(n) < s.min || int64(n) > s.max {
			return errUnsaid
		}
		*field = n
	case *Size:
		n, err := humanize.ParseBytes(text)
		if err != nil || n > math.MaxInt64 || int64(n) < s.min || int64(n) > s.max {
			return errUnsaid
		}
		*field = Size(n)
	default:
		panic(fmt.Sprintf("config: setting %s has a field of unknown type %T", s.Key, field))
	}
	return s.checkText(text)
}

// errUnsaid is a failure that the allowed values already explain.
var errUnsaid = errors.New("not allowed")

func (s Setting) checkText(text string) error {
	switch {
	case text == "" && s.optional:
		return nil
	case text == "":
		return errUnsaid
	case len(s.words) > 0 && !slices.Contains(s.words, text):
		return errUnsaid
	case s.check != nil:
		return s.check(text)
	}
	return nil
}

// text returns the value in c in the form of the file, including secrets.
func (s Setting) text(c *Config) string {
	switch field := s.field(c).(type) {
	case *string:
		return *field
	case *Secret:
		return field.Reveal()
	case *URL:
		return field.Reveal()
	case *[]string:
		return strings.Join(*field, ",")
	case *Parts:
		return field.YAML
	case *time.Duration:
		return formatDuration(*field)
	case *int:
		return strconv.Itoa(*field)
	case *Size:
		return field.String()
	default:
		panic(fmt.Sprintf("config: setting %s has a field of unknown type %T", s.Key, field))
	}
}

// isList reports whether the file can have a sequence for it.
func (s Setting) isList() bool {
	_, ok := s.field(new(Config)).(*[]string)
	return ok
}

// isParts reports whether it is a list of parts in the file.
func (s Setting) isParts() bool {
	_, ok := s.field(new(Config)).(*Parts)
	return ok
}

// splitList reads a comma-separated list.
func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// formatDuration is d.String without zero units: 5m, not 5m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// orList writes "a", "a or b", "a, b or c".
func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// show returns g's value for an error message.
func (s Setting) show(g given) string {
	switch {
	case g.found != "":
		return g.found
	case g.text == "":
		return "nothing"
	case s.isHidden():
		return "a value that is not shown"
	case s.isParts():
		shown, _ := Parts{YAML: g.text}.masked()
		return strconv.Quote(shown)
	default:
		return strconv.Quote(maskURL(g.text))
	}
}

// refuse is the mistake of a value that s does not allow. The reason must not contain a secret.
func refuse(s Setting, g given, reason error) error {
	if errors.Is(reason, errUnsaid) {
		return mistake(g.origin, "want %s, got %s", s.Allowed(), s.show(g))
	}
	return mistake(g.origin, "want %s, got %s: %s", s.Allowed(), s.show(g), reason)
}
