package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/upstream/plain"
)

// ErrInvalid matches every mistake in the configuration.
var ErrInvalid = errors.New("invalid configuration")

// Error is one mistake. It reads
//
//	VITRINE_TTL (environment): want a duration from 10ms to 8760h, got "abc"
type Error struct {
	// Setting is the setting's name as it was written: VITRINE_TTL, --ttl, ttl.default.
	Setting string
	// Origin is "environment", "flag", "default", or the file with its line.
	Origin string
	// Problem says what was found and what is allowed. It contains no secret.
	Problem string
	// Key is the key of the setting, or of what is below it; "" if there is no such setting.
	Key string
}

// Error returns the message in one line.
func (e *Error) Error() string {
	return plain.Text(fmt.Sprintf("%s (%s): %s", e.Setting, e.Origin, e.Problem))
}

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

// origin is the origin of a value.
type origin struct {
	key   string // of the setting; "" if there is none
	name  string // of the setting there: VITRINE_TTL, --ttl, ttl
	file  string // if it came from one
	line  int
	text  int // lines between it and the first one of its text: 1 for a block
	layer layer
}

// String describes the origin: "environment VITRINE_TTL".
func (o origin) String() string {
	if o.layer == fromEnvironment || o.layer == fromFlag {
		return o.place() + " " + o.name
	}
	return o.place()
}

// place is the part of an error in parentheses.
func (o origin) place() string {
	if o.layer == fromFile {
		return fmt.Sprintf("%s:%d", o.file, o.line)
	}
	return map[layer]string{fromDefault: "default", fromEnvironment: "environment", fromFlag: "flag"}[o.layer]
}

// given is a value as text, before it is parsed, and its origin.
type given struct {
	origin
	text    string
	written string     // the text as it was written, if references were replaced in it
	wrong   error      // why there is no text
	node    *yaml.Node // of a tree
}

// values are the texts of all settings, by key. A Config does not keep them, since some are
// secrets.
type values map[string]given

// errUnsaid is a failure that the allowed values already explain.
var errUnsaid = errors.New("not allowed")

// mistake is an Error about a value from o. Texts and errors among args are shortened, since they
// can repeat what was found; a list has only names that are known.
func mistake(o origin, format string, args ...any) error {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = shortened(arg)
		case error:
			args[i] = shortened(arg.Error())
		case []string:
			args[i] = strings.Join(arg, ", ")
		}
	}
	return &Error{Setting: shortened(o.name), Origin: o.place(), Problem: fmt.Sprintf(format, args...), Key: o.key}
}

// shortened keeps the beginning and the end of a long text.
func shortened(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most/2], "") + "…" + strings.ToValidUTF8(text[len(text)-most/2:], "")
}

// cause strips the parts of err that the surrounding message repeats.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// unknown is the mistake of a setting that does not exist. It suggests the known name that was
// probably meant, or lists all after hint: one edit is allowed for every three characters of the
// name. Among names as near, one of the same letters is nearer (tll: ttl, not tls). A name that
// only lacks its end is nearest of all.
func unknown(o origin, name string, known []string, hint string) error {
	o.key = ""
	prefix := o.name[:len(o.name)-len(name)]
	best, least := "", 2*(max(1, len(name)/3)+1)
	for _, candidate := range known {
		d := 2 * distance(name, candidate)
		switch {
		case strings.HasPrefix(candidate, name+"_"):
			d = 0
		case letters(name) != letters(candidate):
			d++
		}
		if d < least || d == least && d == 0 && len(candidate) < len(best) {
			best, least = candidate, d
		}
	}
	if best != "" {
		return mistake(o, "no such setting; did you mean %s?", prefix+best)
	}
	return mistake(o, "no such setting; %s%s", hint, known)
}

// letters are the different bytes of a name.
func letters(name string) string {
	all := []byte(name)
	slices.Sort(all)
	return string(slices.Compact(all))
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
