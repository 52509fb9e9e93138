// Package plain makes foreign text safe for a log line, a terminal or a page. [Text] replaces
// invalid UTF-8, and escapes every character that would move the cursor, or break or disguise a
// line; [Clip] also shortens.
package plain

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with invisible characters escaped as in Go: \x1b, \n, \u202e. Spaces, and the
// joiner inside emoji, stay.
func Text(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if !hidden(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// Clip is Text of a limited number of bytes of s, and an ellipsis if there were more.
func Clip(s string, most int) string {
	if len(s) <= most {
		return Text(s)
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return Text(s[:most]) + "…"
}

func hidden(r rune) bool { return !unicode.IsPrint(r) && r != '\u200d' }
