package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"vitrine/config"
	"vitrine/upstream/plain"
)

// A screen collects output until flush. Foreign text, such as the CMS's, is shown with its control
// characters visible, since a terminal would obey them.
type screen struct {
	w      io.Writer
	colour bool
	kept   strings.Builder
}

// painted is text that screen has made safe, and perhaps coloured.
type painted string

// newScreen writes to stdout, in colour if that is a terminal with colours and NO_COLOR is not set
// (https://no-color.org).
func newScreen(p program) *screen {
	s := &screen{w: p.stdout}
	if f, ok := p.stdout.(*os.File); ok {
		s.colour = isatty.IsTerminal(f.Fd()) && config.Variable(p.environ, "NO_COLOR") == "" && config.Variable(p.environ, "TERM") != "dumb"
	}
	return s
}

// printf formats like [fmt.Printf]. Arguments are made safe, unless they are painted or have a verb
// for numbers.
func (s *screen) printf(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case painted, int, int64, float64:
		default:
			args[i] = plain.Text(fmt.Sprint(arg))
		}
	}
	_, _ = fmt.Fprintf(&s.kept, format, args...) // into a strings.Builder
}

// flush writes the collected text.
func (s *screen) flush() error {
	_, err := io.WriteString(s.w, s.kept.String())
	s.kept.Reset()
	return err
}

func (s *screen) paint(code, text string) painted {
	if text = plain.Text(text); !s.colour || text == "" {
		return painted(text)
	}
	return painted("\x1b[" + code + "m" + text + "\x1b[0m")
}

func (s *screen) good(text string) painted { return s.paint("32", text) }
func (s *screen) warn(text string) painted { return s.paint("33", text) }
func (s *screen) bad(text string) painted  { return s.paint("31;1", text) }
