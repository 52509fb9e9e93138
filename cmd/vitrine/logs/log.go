// Package logs makes the log: lines that nothing forges, and a queue before a reader that may hang.
package logs

import (
	"bytes"
	"io"
	"log/slog"
	"strings"

	"vitrine/config"
	"vitrine/upstream/sanitize"
)

// New makes the log. Level and format have been checked. If w is a [Queue], its notices are
// lines of this log.
func New(w io.Writer, c config.Log) *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: sanitized}
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil {
		options.Level = level
	}
	newHandler := func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) }
	if c.Format == "json" {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr { return sanitized(groups, secondsInJSON(a)) }
		newHandler = func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) }
	}
	if q, ok := w.(*Queue); ok {
		notice := func(lost uint64) []byte {
			var line bytes.Buffer
			slog.New(newHandler(&line)).Error("log lines lost", "lines", lost)
			return line.Bytes()
		}
		q.notice.Store(&notice)
	}
	return slog.New(newHandler(w))
}

// secondsInJSON makes a duration a number with the unit in its name: slog's JSON has nanoseconds.
func secondsInJSON(a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// mostLines is how many lines of one error are logged.
const mostLines = 20

// sanitized is a without characters that forge or disguise a line, and short: visitors, the CMS and
// Redis have their words in it. A stack has none.
func sanitized(_ []string, a slog.Attr) slog.Attr {
	switch kind := a.Value.Kind(); {
	case kind == slog.KindString && a.Key != "stack":
		a.Value = slog.StringValue(sanitize.Text(a.Value.String()))
	case kind == slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error: // several are on a line each
			lines := strings.SplitN(v.Error(), "\n", mostLines+1)
			for i := range lines {
				lines[i] = sanitize.Text(lines[i])
			}
			a.Value = slog.StringValue(strings.Join(lines[:min(len(lines), mostLines)], "; "))
		case []string:
			list := make([]string, len(v))
			for i := range v {
				list[i] = sanitize.Text(v[i])
			}
			a.Value = slog.AnyValue(list)
		default:
			a.Value = slog.StringValue(sanitize.Text(a.Value.String()))
		}
	}
	return a
}

// NewAccess makes the log of requests, at any level; nil if it is off.
func NewAccess(w io.Writer, c config.Log) *slog.Logger {
	if c.Access == "off" {
		return nil
	}
	c.Level = "debug"
	return New(w, c)
}
