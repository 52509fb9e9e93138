package main

import (
	"fmt"
	"io"
	"strings"

	"vitrine/upstream/plain"
)

// A screen collects output until flush. Foreign text, such as the CMS's, is shown with its control
// characters visible, since a terminal would obey them.
type screen struct {
	w    io.Writer
	kept strings.Builder
}

// printf formats like [fmt.Printf]. Arguments are made safe, but for numbers.
func (s *screen) printf(format string, args ...any) {
	for i, arg := range args {
		switch arg.(type) {
		case int, int64, float64:
		default:
			args[i] = plain.Text(fmt.Sprint(arg))
		}
	}
	_, _ = fmt.Fprintf(&s.kept, format, args...) // into a strings.Builder
}

// report prints what a command found, as JSON or as text, and fails unless all is well.
func (p program) report(ok, asJSON bool, found any, show func(*screen)) (err error) {
	if asJSON {
		err = p.printJSON(found)
	} else {
		screen := &screen{w: p.stdout}
		show(screen)
		err = screen.flush()
	}
	if err == nil && !ok {
		err = errReported
	}
	return err
}

// flush writes the collected text.
func (s *screen) flush() error {
	_, err := io.WriteString(s.w, s.kept.String())
	return err
}
