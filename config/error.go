package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"vitrine/upstream/sanitize"
)

// ErrInvalid matches every mistake in the configuration.
var ErrInvalid = errors.New("invalid configuration")

// Error is one mistake, in one line without secrets. It reads
//
//	VITRINE_TTL (environment): want a duration such as 90s, 15m or 24h, from 10ms to 8760h, got "abc"
type Error struct {
	// Key is the key of the setting, or of what is below it; "" if there is no such setting.
	Key  string
	text string
}

// Error returns the message.
func (e *Error) Error() string { return e.text }

// Is makes every Error an [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// layer is a source of values, in rising order of precedence.
type layer int

const (
	fromDefault layer = iota
	fromFile
	fromEnvironment
	fromFlag
)

// place is where a value was found.
type place struct {
	name  string // of the setting there: VITRINE_TTL, --listen, ttl
	file  string // if it is in one
	line  int
	layer layer
}

// String is the part of an error in parentheses.
func (p place) String() string {
	if p.layer == fromFile {
		return fmt.Sprintf("%s:%d", p.file, p.line)
	}
	return map[layer]string{fromDefault: "default", fromEnvironment: "environment", fromFlag: "flag"}[p.layer]
}

// mistake is an Error about the value of key. A list among args has only names that are known.
func mistake(key string, at place, format string, args ...any) *Error {
	for i, arg := range args {
		if list, ok := arg.([]string); ok {
			args[i] = strings.Join(list, ", ")
		}
	}
	return &Error{Key: key, text: sanitize.Clip(at.name, 200) + " (" + sanitize.Text(at.String()) + "): " + sanitize.Clip(fmt.Sprintf(format, args...), 1700)}
}

// refuse is the mistake of a value, as it was written, that is not allowed. The reason must not
// contain a secret.
func refuse(key string, at place, t reflect.Type, tag reflect.StructTag, written string, reason error) *Error {
	found, why := strconv.Quote(written), ""
	switch {
	case written == "":
		found = "nothing"
	case t == reflect.TypeFor[URL]():
		found = strconv.Quote(newURL(tag, written).String())
	case t == reflect.TypeFor[Secret](), tag.Get("is") == "header":
		found = "a value that is not shown"
	}
	if !errors.Is(reason, errUnsaid) {
		why = ": " + sanitize.Clip(reason.Error(), 300)
	} else if hint := DidYouMean("", strings.ToLower(written), choices(tag)); hint != "" {
		why = "; " + hint
	}
	return mistake(key, at, "want %s, got %s%s", allowed(t, tag), sanitize.Clip(found, 300), why)
}

// cause is what the system said, without the path, which the surrounding message repeats.
func cause(err error) error {
	if said, ok := errors.AsType[syscall.Errno](err); ok {
		return said
	}
	return err
}

// unknown is the mistake of a setting that does not exist: name is the last part of its whole name.
// It suggests the known ones that were probably meant, or lists those that share a word, or all, after
// hint.
func unknown(at place, name string, known []string, hint string) *Error {
	for _, s := range settings {
		if at.layer == fromFile && (name == s.Key || name == s.Env) {
			return mistake("", at, "no such setting; write %s: …%s", strings.ReplaceAll(s.Key, ".", ": {"), strings.Repeat("}", strings.Count(s.Key, ".")))
		}
	}
	if strings.Contains(strings.ToLower(name), "embedded") {
		return mistake("", at, "no such setting; the store inside the process is VITRINE_REDIS_URL=embedded:PORT")
	} else if meant := DidYouMean(strings.TrimSuffix(at.name, name), name, known); meant != "" {
		return mistake("", at, "no such setting; %s", meant)
	}
	words := strings.Split(strings.TrimPrefix(name, envPrefix), "_")
	similar := slices.DeleteFunc(slices.Clone(known), func(candidate string) bool {
		return !slices.ContainsFunc(strings.Split(candidate, "_"), func(word string) bool { return slices.Contains(words, word) })
	})
	if len(similar) > 0 {
		known = similar
	}
	return mistake("", at, "no such setting; %s%s", hint, known)
}

// DidYouMean asks for the known name that was probably meant, or for those as near, with a prefix: one
// edit is allowed for every three characters. It is empty if there is none.
func DidYouMean(prefix, name string, known []string) string {
	name = strings.TrimPrefix(name, envPrefix)
	var nearest []string
	least := max(1, len(name)/3)
	for _, candidate := range known {
		d := distance(name, strings.TrimPrefix(candidate, envPrefix))
		if d < least {
			nearest, least = nil, d
		}
		if d == least {
			nearest = append(nearest, prefix+candidate)
		}
	}
	if nearest == nil {
		return ""
	}
	return "did you mean " + strings.Join(nearest, " or ") + "?"
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
