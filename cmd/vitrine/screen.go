package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// A screen is what is shown to a person, or to whatever stdout is led into. It
// keeps what it is given until flush, so that a watched screen does not flicker.
type screen struct {
	w        io.Writer
	terminal bool // stdout is one, so that it can be cleared
	colour   bool
	kept     strings.Builder
	shown    bool
}

// newScreen looks at where stdout leads. Colour is for terminals that have it,
// and for nobody who has set NO_COLOR (https://no-color.org).
func newScreen(p program) *screen {
	s := &screen{w: p.stdout}
	if f, ok := p.stdout.(*os.File); ok {
		s.terminal = isatty.IsTerminal(f.Fd())
	}
	s.colour = s.terminal && variable(p.environ, "NO_COLOR") == "" && variable(p.environ, "TERM") != "dumb"
	return s
}

// variable is the value of name in an environment, "" if it is not there.
func variable(environ []string, name string) string {
	for _, line := range environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}

func (s *screen) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(&s.kept, format, args...) // into a strings.Builder
}

// clear begins anew: on a terminal at its top, elsewhere after an empty line.
func (s *screen) clear() {
	switch {
	case s.terminal:
		s.printf("\x1b[H\x1b[2J")
	case s.shown:
		s.printf("\n")
	}
}

// flush writes what was kept.
func (s *screen) flush() error {
	_, err := io.WriteString(s.w, s.kept.String())
	s.kept.Reset()
	s.shown = true
	return err
}

func (s *screen) paint(code, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) good(text string) string { return s.paint("32", text) }
func (s *screen) warn(text string) string { return s.paint("33", text) }
func (s *screen) bad(text string) string  { return s.paint("31;1", text) }
func (s *screen) dim(text string) string  { return s.paint("2", text) }
func (s *screen) bold(text string) string { return s.paint("1", text) }
