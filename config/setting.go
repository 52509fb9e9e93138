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

	"vitrine/config/source"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// Setting is one row of the table: everything that the file, the environment, the flags, the
// documentation and the error messages know about it.
type Setting struct {
	Key      string // its place in the YAML file: upstream.timeout
	Env      string // its variable; empty: it can be set in the file only
	Flag     string // without the dashes; empty: there is none
	Default  string // as text
	Inherits string // the key of the setting whose value is the default, if any
	Doc      string // one line for operators, with code in backticks

	typ   reflect.Type
	tag   reflect.StructTag
	index []int // of the field
}

// envPrefix is the beginning of all variables.
const envPrefix = "VITRINE_"

// settings is the table.
var settings = rows(reflect.TypeFor[Config](), "", "", nil, "")

var (
	quoted = regexp.MustCompile(`\B'([^']+)'`)
	leaves = []reflect.Type{
		reflect.TypeFor[Secret](), reflect.TypeFor[URL](), reflect.TypeFor[source.Shared](), reflect.TypeFor[source.Resource](), reflect.TypeFor[Targets](),
	}
)

// rows makes the rows of the settings in a group from the tags of its fields.
func rows(group reflect.Type, key, tags string, index []int, resource string) (out []Setting) {
	for i := range group.NumField() {
		f := group.Field(i)
		at, tag, of, where := key, f.Tag, resource, append(slices.Clone(index), i)
		if name := tag.Get("yaml"); name != "" && !f.Anonymous {
			at = strings.TrimPrefix(key+"."+name, ".")
			if shape.Resource(name).Valid() {
				of = name
			}
		}
		tag += reflect.StructTag(" " + tags) // the first one of a name counts
		if !f.IsExported() {
			continue
		} else if f.Type.Kind() == reflect.Struct && !slices.Contains(leaves, f.Type) {
			out = append(out, rows(f.Type, at, string(tag), where, of)...)
			continue
		}
		s := Setting{Key: at, Default: tag.Get("default"), Inherits: tag.Get("inherits"), typ: f.Type, tag: tag, index: where}
		s.Doc = quoted.ReplaceAllString(strings.ReplaceAll(tag.Get("doc"), "{}", of), "`$1`")
		if !slices.Contains(leaves[2:], f.Type) {
			s.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(at, ".default"), ".", "_"))
		}
		if tag.Get("flag") != "" {
			s.Flag = strings.NewReplacer(".", "-", "_", "-").Replace(at)
		}
		out = append(out, s)
	}
	return out
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

// text is the value of a text in c.
func (s Setting) text(c *Config) string {
	if secret, ok := s.field(c).Interface().(interface{ Reveal() string }); ok {
		return secret.Reveal()
	}
	return s.field(c).String()
}

// Allowed describes the values that are allowed: "a duration such as 90s, 15m or 24h, from 10ms to 8760h".
func (s Setting) Allowed() string { return allowed(s.typ, s.tag) }

var numbers = map[reflect.Type]string{
	reflect.TypeFor[time.Duration](): "a duration such as 90s, 15m or 24h,", reflect.TypeFor[int](): "a whole number",
	reflect.TypeFor[Size](): "a size such as 64KiB,", reflect.TypeFor[Share](): "a share such as 50%,",
}

func allowed(t reflect.Type, tag reflect.StructTag) string {
	text := cmp.Or(rules[tag.Get("is")].allowed, map[reflect.Kind]string{reflect.Slice: "a list", reflect.Map: "names and their values"}[t.Kind()], "a text")
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 {
		last := len(words) - 1
		text = strings.Join(words[:last], ", ") + " or " + words[last]
	} else if number := numbers[t]; number != "" {
		text = number + " from " + strings.Replace(tag.Get("range"), "..", " to ", 1)
	} else if t.Kind() == reflect.Bool {
		text = "true or false"
	}
	if tag.Get("unset") != "" && tag.Get("default") != "" {
		text += ", or empty"
	}
	return text
}

// choices are the texts that are allowed, if they are known.
func choices(tag reflect.StructTag) []string {
	switch tag.Get("is") {
	case "preset":
		return presets
	case "target's preset":
		return targetPresets
	}
	return strings.Fields(tag.Get("oneof"))
}

// errUnsaid is a failure that the allowed values already explain.
var errUnsaid = errors.New("not allowed")

// parse sets a field of one value. The reason of a failure contains no part of a secret.
func parse(to reflect.Value, tag reflect.StructTag, text string) (err error) {
	words, bounds := strings.Fields(tag.Get("oneof")), tag.Get("range")
	switch field := to.Addr().Interface().(type) {
	case *Secret:
		*field = NewSecret(text)
	case *URL:
		*field = newURL(tag, text)
	case *[]string:
		*field = splitList(text)
	case *time.Duration:
		*field, err = bounded(bounds, text, time.ParseDuration)
		if _, numeric := strconv.ParseFloat(text, 64); err != nil && numeric == nil && !strings.Contains(text, "x") {
			err = fmt.Errorf("a unit is missing, as in %ss", text)
		}
	case *int:
		*field, err = bounded(bounds, text, strconv.Atoi)
	case *Size:
		*field, err = bounded(bounds, text, parseSize)
	case *Share:
		*field, err = bounded(bounds, text, parseShare)
	case *bool:
		*field, words = text == "true", []string{"true", "false"}
	default:
		to.SetString(text)
	}
	switch {
	case strings.Contains(text, "***") && tag.Get("is") != "jq program" && tag.Get("is") != "predicate":
		return errors.New("*** stands for a secret; fill it in")
	case err != nil || text == "" && (tag.Get("unset") != "" || tag.Get("default")+tag.Get("inherits") == "" && tag.Get("doc") != ""):
		return err
	case strings.TrimSpace(text) == "":
		return errUnsaid
	}
	check, items := rules[tag.Get("is")].check, []string{text}
	if list, ok := to.Interface().([]string); ok {
		items = list
	}
	for _, item := range items {
		switch {
		case (check == nil || check(item)) && (len(words) == 0 || slices.Contains(words, item)) && (item != "*" || len(items) == 1):
		case len(items) > 1:
			return fmt.Errorf("%q is not one", item)
		default:
			return errUnsaid
		}
	}
	if tag.Get("is") == "predicate" {
		_, err = mapping.Compile("", "", text)
		if wrong, ok := errors.AsType[*mapping.ProgramError](err); ok {
			err = wrong.Where()
		}
	}
	return err
}

func newURL(tag reflect.StructTag, text string) URL {
	if tag.Get("is") == "target's URL" {
		return source.NewEndpoint(text)
	}
	return NewURL(text)
}

// bounded parses a number within LEAST..MOST.
func bounded[N cmp.Ordered](bounds, text string, parse func(string) (N, error)) (N, error) {
	least, most, _ := strings.Cut(bounds, "..")
	n, err := parse(text)
	if low, _ := parse(least); err != nil || n < low {
		return n, errUnsaid
	}
	if high, _ := parse(most); n > high {
		return n, errUnsaid
	}
	return n, nil
}
