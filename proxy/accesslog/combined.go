// Package accesslog writes the log of requests for other programs. [Combined] is a slog.Handler
// that writes one line for each request in the combined log format; a [File] appends lines to a
// path, and opens it again when SIGUSR1 says that log rotation has moved the file.
package accesslog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"
)

// Combined returns a handler for the public server's log of requests, which writes the combined log
// format of httpd and nginx, one line in each call of w.Write:
//
//	CLIENT - - [22/Nov/2026:16:48:01 +0000] "GET /gvapp/ HTTP/1.1" 200 10687 "REFERER" "USER AGENT"
//
// An absent value is a hyphen, as the whole request is if it could not be read. Other attributes
// are left out.
func Combined(w io.Writer) slog.Handler { return combined{w} }

type combined struct{ io.Writer }

// Enabled implements slog.Handler: the level of the log does not concern requests.
func (combined) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler. A line has no place for more.
func (c combined) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements slog.Handler.
func (c combined) WithGroup(string) slog.Handler { return c }

// Handle implements slog.Handler.
func (c combined) Handle(_ context.Context, r slog.Record) error {
	values := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		return true
	})
	value := func(name string) string {
		if values[name] == "" {
			return "-"
		}
		return escaped(values[name])
	}
	request := "-"
	if values["method"] != "" {
		request = value("method") + " " + value("target") + " " + value("protocol")
	}
	_, err := fmt.Fprintf(c, "%s - - [%s] \"%s\" %s %s \"%s\" \"%s\"\n", value("client"), r.Time.Format("02/Jan/2006:15:04:05 -0700"),
		request, value("status"), value("bytes"), value("referer"), value("user_agent"))
	return err
}

// escaped writes the characters that would end a field or a line, or that a terminal obeys, as \xHH
// for each byte, as nginx does.
func escaped(text string) string {
	var out []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == '"' || r == '\\' || r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && size == 1 {
			for _, b := range []byte(text[:size]) {
				out = fmt.Appendf(out, `\x%02X`, b)
			}
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return string(out)
}
