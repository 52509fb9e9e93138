package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"vitrine/config"
)

// program is the environment of a command.
type program struct {
	environ []string
	stdout  io.Writer
	stderr  io.Writer
	// installed is the folder with the configuration of an installed service. Empty: none.
	installed string
	// hangups starts to report requests to reload the configuration. Nil: none.
	hangups func() <-chan os.Signal
}

// printJSON prints v for machines.
func (p program) printJSON(v any) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2 // wrong use or configuration
)

// errReported is the failure of a command that has already printed its error.
var errReported = errors.New("reported")

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exit prints the error, a line for each mistake, and returns the exit code.
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

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
