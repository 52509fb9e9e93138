package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"

	"vitrine/config"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
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

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2 // wrong use or configuration
)

// exit prints the error, a line for each mistake, and returns the exit code.
func exit(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	code, most := exitFailed, sanitize.Most
	var usage usageError
	switch {
	case errors.Is(err, config.ErrInvalid):
		code, most = exitWrong, 2000 // its lines clip what they quote
	case errors.As(err, &usage):
		code = exitWrong
	}
	if !errors.Is(err, errReported) {
		for line := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprintln(stderr, "vitrine:", sanitize.Clip(strings.TrimSpace(line), most))
		}
	}
	return code
}

// resourceNamed is the resource of that name, given as what.
func resourceNamed(what, name string) (shape.Resource, error) {
	var names []string
	for _, r := range shape.Resources() {
		names = append(names, string(r))
	}
	if last := len(names) - 1; !slices.Contains(names, name) {
		return "", wrongUse("%s: want %s or %s, got %q", what, strings.Join(names[:last], ", "), names[last], name)
	}
	return shape.Resource(name), nil
}

// author is who runs this command: USER@HOST.
func author() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
