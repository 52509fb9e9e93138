package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/shape"
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

	kind
	index []int  // of the field
	holds string // this setting names a file with the value of that key
}

// envPrefix is the beginning of all variables.
const envPrefix = "VITRINE_"

// settings is the table.
var settings = rows(reflect.TypeFor[Config](), "", "", nil, "")

var (
	leaves = []reflect.Type{reflect.TypeFor[Secret](), reflect.TypeFor[URL](), reflect.TypeFor[source.Shared](), reflect.TypeFor[source.Resource]()}
	quoted = regexp.MustCompile(`\B'([^']+)'`)
	zeros  = regexp.MustCompile(`([hm])(?:0[ms])+$`)
)

// rows makes the rows of the settings in a group from the tags of its fields.
func rows(group reflect.Type, key, tags string, index []int, resource string) (out []Setting) {
	for i := range group.NumField() {
		f := group.Field(i)
		at, tag, of := key, f.Tag, resource
		if name := tag.Get("yaml"); name != "" {
			at = strings.TrimPrefix(key+"."+name, ".")
			if shape.Resource(name).Valid() {
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
			out = append(out, row(f.Type, at, tag, where, of))
		}
	}
	return out
}

// row makes a row. A tree has neither variable nor flag, and a secret no flag, because every user
// of the machine can read the command line.
func row(t reflect.Type, key string, tag reflect.StructTag, index []int, resource string) Setting {
	s := Setting{
		Key: key, Default: tag.Get("default"), index: index, kind: kindOf(t, tag),
		Inherits: tag.Get("inherits"), holds: tag.Get("holds"),
	}
	s.Doc = quoted.ReplaceAllString(strings.ReplaceAll(tag.Get("doc"), "{}", resource), "`$1`")
	name := strings.TrimSuffix(key, ".default")
	if !s.isTree() {
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

// field is the value in c.
func (s Setting) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index)
}

func (s Setting) isHidden() bool { return s.is(Secret{}) } // no part of the value is ever shown

// isTree reports whether the value is a mapping, or a list of them, below which nothing is a
// setting.
func (s Setting) isTree() bool {
	return s.is(source.Shared{}) || s.is(source.Resource{}) || s.is(Targets{})
}

// Allowed describes the values of the setting: "a duration from 10ms to 8760h".
func (s Setting) Allowed() string {
	if s.optional && s.Default != "" {
		return s.describe() + ", or empty"
	}
	return s.describe()
}

// text returns the value in c in the form of the file, including secrets. That of a tree is masked.
func (s Setting) text(c *Config) string {
	switch field := s.field(c).Interface().(type) {
	case interface{ Reveal() string }:
		return field.Reveal()
	case []string:
		return strings.Join(field, ",")
	case source.Shared, source.Resource, Targets:
		return c.trees[s.Key].shown
	case time.Duration: // 5m, not 5m0s
		return zeros.ReplaceAllString(field.String(), "$1")
	default:
		return fmt.Sprint(field)
	}
}

// refuse is the mistake of a value that s does not allow, if there is a reason, which must not
// contain a secret.
func refuse(s Setting, g given, reason error) error {
	switch {
	case reason == nil:
		return nil
	case errors.Is(reason, errUnsaid):
		return mistake(g.origin, "want %s, got %s", s.Allowed(), s.show(g))
	}
	return mistake(g.origin, "want %s, got %s: %s", s.Allowed(), s.show(g), reason)
}

// show returns g's value for an error message.
func (s Setting) show(g given) string {
	switch {
	case g.text == "":
		return "nothing"
	case s.isHidden():
		return "a value that is not shown"
	case g.written != "":
		return strconv.Quote(g.written)
	default:
		return strconv.Quote(maskURL(g.text))
	}
}
