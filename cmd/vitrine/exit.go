package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"vitrine/config"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2 // wrong use or configuration
)

// errReported is the failure of a command that has said all there is to say.
var errReported = errors.New("reported")

// usageError is a wrong use of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exit says what went wrong, a line for each mistake, and returns the code.
func exit(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errReported) {
		for line := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprintln(stderr, "vitrine:", strings.TrimSpace(line))
		}
	}
	var usage *usageError
	if errors.Is(err, config.ErrInvalid) || errors.As(err, &usage) {
		return exitWrong
	}
	return exitFailed
}
