package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// Inherits is the key of the setting whose value is the default, if any.
	Inherits string
	// Doc is one line for operators, with code in backticks.
	Doc string

	index    []int    // of the field
	rule     rule     // of a text
	words    []string // the only texts allowed, if any
	min, max string   // bounds of a number, a size, or a duration
	optional bool     // empty is a value, not the default
	holds    string   // this setting names a file with the value of that key
}

// settings is the table.
var settings = rows(reflect.TypeFor[Config](), "", "", nil, "")

var (
	resources = []string{"catalogue", "rules", "banners"}
	leaves    = []reflect.Type{reflect.TypeFor[Secret](), reflect.TypeFor[URL](), reflect.TypeFor[Parts]()}
	quoted    = regexp.MustCompile(`\B'([^']+)'`)
)

// rows makes the rows of the settings in a group from the tags of its fields.
func rows(group reflect.Type, key, tags string, index []int, resource string) (out []Setting) {
	for i := range group.NumField() {
		f := group.Field(i)
		at, tag, of := key, f.Tag, resource
		if name := tag.Get("yaml"); name != "" {
			at = strings.TrimPrefix(key+"."+name, ".")
			if slices.Contains(resources, name) {
				of = name
			}
		}
		where := append(slices.Clone(index), i)
		tag += reflect.StructTag(" " + tags) // the first one of a name counts
		switch {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct && !slices.Contains(leaves, f.Type):
			out = append(out, rows(f.Type, at, string(tag), where, of)...)
		default:
			out = append(out, row(at, tag, where, of))
		}
	}
	return out
}

// row makes a row. What differs per resource or is a list of parts is said in the file only, and a
// secret on a command line could be read by every user of the machine.
func row(key string, tag reflect.StructTag, index []int, resource string) Setting {
	s := Setting{
		Key: key, Default: tag.Get("default"), index: index, rule: rules[tag.Get("is")], words: strings.Fields(tag.Get("oneof")),
		optional: tag.Get("unset") != "", Inherits: tag.Get("inherits"), holds: tag.Get("holds"),
	}
	s.min, s.max, _ = strings.Cut(tag.Get("range"), "..")
	s.Doc = quoted.ReplaceAllString(strings.ReplaceAll(tag.Get("doc"), "{}", resource), "`$1`")
	name := strings.TrimSuffix(key, ".default")
	if !strings.HasPrefix(key, "upstream.resources.") && !s.isParts() {
		s.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
		if !s.isHidden() {
			s.Flag = strings.NewReplacer(".", "-", "_", "-").Replace(name)
		}
	}
	return s
}

// Settings returns a copy of the table, in the order of the documentation.
func Settings() []Setting { return slices.Clone(settings) }

// Lookup finds the setting called key.
func Lookup(key string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

// names lists every setting and group below group, by its whole key. The group "" is the file.
func names(group string) []string {
	var out []string
	for _, s := range settings {
		for i, r := range s.Key + "." {
			key := s.Key[:i]
			if r == '.' && (group == "" || strings.HasPrefix(key, group+".")) && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}

// members lists the settings and groups directly in group, by their names there. It is empty if
// there is no such group.
func members(group string) []string {
	var out []string
	for _, key := range names(group) {
		name := strings.TrimPrefix(strings.TrimPrefix(key, group), ".")
		if !strings.Contains(name, ".") {
			out = append(out, name)
		}
	}
	return out
}

// field is a pointer to the value in c. Its type is the setting's kind.
func (s Setting) field(c *Config) any {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index).Addr().Interface()
}

// is reports whether s is of the kind T.
func is[T any](s Setting) bool {
	_, ok := s.field(new(Config)).(*T)
	return ok
}

func (s Setting) isHidden() bool { return is[Secret](s) } // no part of the value is ever shown
func (s Setting) isParts() bool  { return is[Parts](s) }

// Allowed describes the values of the setting: "a duration from 10ms to 8760h".
func (s Setting) Allowed() string {
	allowed := s.rule.allowed
	bounds := " from " + s.min + " to " + s.max
	switch {
	case is[time.Duration](s):
		allowed = "a duration" + bounds
	case is[int](s):
		allowed = "a whole number" + bounds
	case is[Size](s):
		allowed = "a size" + bounds
	case len(s.words) > 0:
		last := len(s.words) - 1
		allowed = strings.Join(s.words[:last], ", ") + " or " + s.words[last]
	}
	if s.optional && s.Default != "" {
		allowed += ", or empty"
	}
	return allowed
}

// set parses a value into its place in c. The reason of a failure contains no part of a secret.
func (s Setting) set(c *Config, g given) (err error) {
	switch field := s.field(c).(type) {
	case *string:
		*field = g.text
	case *Secret:
		*field = NewSecret(g.text)
	case *URL:
		*field = NewURL(g.text)
	case *[]string:
		*field = splitList(g.text)
	case *Parts:
		*field = Parts{YAML: g.text, Node: g.node}
	case *time.Duration:
		*field, err = bounded(s, g.text, time.ParseDuration)
	case *int:
		*field, err = bounded(s, g.text, strconv.Atoi)
	case *Size:
		*field, err = bounded(s, g.text, parseSize)
	}
	switch {
	case g.found != "":
		return errUnsaid
	case err != nil || g.text == "" && s.optional:
		return err
	case g.text == "", len(s.words) > 0 && !slices.Contains(s.words, g.text):
		return errUnsaid
	case s.rule.check != nil:
		return s.rule.check(g.text)
	}
	return nil
}

// bounded parses a number within the bounds of s.
func bounded[N cmp.Ordered](s Setting, text string, parse func(string) (N, error)) (N, error) {
	n, err := parse(text)
	least, _ := parse(s.min)
	most, _ := parse(s.max)
	_, bare := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && bare == nil && is[time.Duration](s):
		return n, fmt.Errorf("a unit is missing, as in %ss", text)
	case err != nil || n < least || n > most:
		return n, errUnsaid
	}
	return n, nil
}

// text returns the value in c in the form of the file, including secrets.
func (s Setting) text(c *Config) string {
	switch field := s.field(c).(type) {
	case interface{ Reveal() string }:
		return field.Reveal()
	case *[]string:
		return strings.Join(*field, ",")
	case *Parts:
		return field.YAML
	case *time.Duration: // 5m, not 5m0s
		text := field.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	default:
		return fmt.Sprint(reflect.ValueOf(field).Elem())
	}
}

// refuse is the mistake of a value that s does not allow. The reason must not contain a secret.
func refuse(s Setting, g given, reason error) error {
	if errors.Is(reason, errUnsaid) {
		return mistake(g.origin, "want %s, got %s", s.Allowed(), s.show(g))
	}
	return mistake(g.origin, "want %s, got %s: %s", s.Allowed(), s.show(g), reason)
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
