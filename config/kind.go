package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is what a single value must be: the type of its field, and the tags oneof, range, is and
// unset, which [Config] explains.
type kind struct {
	typ      reflect.Type
	words    []string // the only texts allowed, if any
	min, max string   // bounds of a number, a size, or a duration
	rule     rule     // of a text
	optional bool     // the empty text is a value
}

func kindOf(t reflect.Type, tag reflect.StructTag) kind {
	k := kind{typ: t, words: strings.Fields(tag.Get("oneof")), rule: rules[tag.Get("is")], optional: tag.Get("unset") != ""}
	k.min, k.max, _ = strings.Cut(tag.Get("range"), "..")
	return k
}

// is reports whether the value is of the type of v.
func (k kind) is(v any) bool { return k.typ == reflect.TypeOf(v) }

// describe says which values are allowed: "a duration from 10ms to 8760h".
func (k kind) describe() string {
	allowed, bounds := k.rule.allowed, " from "+k.min+" to "+k.max
	switch {
	case k.is(time.Duration(0)):
		allowed = "a duration" + bounds
	case k.is(0):
		allowed = "a whole number" + bounds
	case k.is(Size(0)):
		allowed = "a size" + bounds
	case k.is(Share(0)):
		allowed = "a share" + bounds
	case k.is(false):
		allowed = "true or false"
	case len(k.words) > 0:
		last := len(k.words) - 1
		allowed = strings.Join(k.words[:last], ", ") + " or " + k.words[last]
	case allowed == "":
		allowed = "a text"
	}
	return allowed
}

// parse sets a field of k's type. The reason of a failure contains no part of a secret.
func (k kind) parse(to reflect.Value, text string) (err error) {
	switch field := to.Addr().Interface().(type) {
	case *Secret:
		*field = NewSecret(text)
	case *URL:
		*field = NewURL(text)
	case *[]string:
		*field = splitList(text)
	case *time.Duration:
		*field, err = bounded(k, text, time.ParseDuration)
	case *int:
		*field, err = bounded(k, text, strconv.Atoi)
	case *Size:
		*field, err = bounded(k, text, parseSize)
	case *Share:
		*field, err = bounded(k, text, parseShare)
	case *bool:
		*field = text == "true"
		k.words = []string{"true", "false"}
	default:
		to.SetString(text)
	}
	switch {
	case err != nil || text == "" && k.optional:
		return err
	case strings.TrimSpace(text) == "", len(k.words) > 0 && !slices.Contains(k.words, text):
		return errUnsaid
	case k.rule.check != nil:
		return k.rule.check(text)
	}
	return nil
}

// bounded parses a number within the bounds of k.
func bounded[N cmp.Ordered](k kind, text string, parse func(string) (N, error)) (N, error) {
	n, err := parse(text)
	least, _ := parse(k.min)
	most, _ := parse(k.max)
	_, unitMissing := parse(text + "s")
	switch {
	case err != nil && unitMissing == nil && k.is(time.Duration(0)):
		return n, fmt.Errorf("a unit is missing, as in %ss", text)
	case err != nil || n < least || n > most:
		return n, errUnsaid
	}
	return n, nil
}
