package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
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
}

// Error returns the message in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (%s): %s", e.Setting, e.Origin, e.Problem)
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
	name  string // of the setting there: VITRINE_TTL, --ttl, ttl
	file  string // and line, vitrine.yaml:12, if it came from one
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
		return o.file
	}
	return map[layer]string{fromDefault: "default", fromEnvironment: "environment", fromFlag: "flag"}[o.layer]
}

// given is a value as text, before it is parsed, and its origin.
type given struct {
	origin
	text  string
	found string     // what to show in an error if text is not as written
	node  *yaml.Node // of parts
}

// values are the texts of all settings, by key. A Config does not keep them, since some are
// secrets.
type values map[string]given

// errUnsaid is a failure that the allowed values already explain.
var errUnsaid = errors.New("not allowed")

// mistake is an Error about a value from o.
func mistake(o origin, format string, args ...any) error {
	return &Error{Setting: o.name, Origin: o.place(), Problem: fmt.Sprintf(format, args...)}
}

// cause strips the parts of err that the surrounding message repeats.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// unknown is the mistake of a setting that does not exist. It suggests the known name that was
// probably meant, or lists those of hint: one edit is allowed for every three characters of the
// name's own part, which begins after the prefix.
func unknown(o origin, prefix int, known []string, hint string, listed ...string) error {
	best, least := "", max(1, (len(o.name)-prefix)/3)+1
	for _, candidate := range known {
		if d := distance(o.name, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best != "" {
		return mistake(o, "no such setting; did you mean %s?", best)
	}
	if listed == nil {
		listed = known
	}
	return mistake(o, "no such setting; "+hint, strings.Join(listed, ", "))
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
