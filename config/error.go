package config

import (
	"errors"
	"fmt"
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

// mistake is an Error about a value from o.
func mistake(o origin, format string, args ...any) error {
	return &Error{Setting: o.name, Origin: o.place(), Problem: fmt.Sprintf(format, args...)}
}

// nearest returns the candidate that name was probably meant to be, or "". One edit is allowed for
// every three characters after the common prefix.
func nearest(name string, own int, candidates []string) string {
	best, bestDistance := "", max(1, own/3)+1
	for _, candidate := range candidates {
		if d := distance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
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
