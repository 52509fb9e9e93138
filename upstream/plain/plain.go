// Package plain makes text that came from elsewhere fit for a line of a log, a terminal or a page:
// shortened, in valid UTF-8, and with every character visible that would move a cursor, break a line
// or disguise one.
package plain

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with what cannot be seen escaped as Go escapes it: \x1b, \n, \u202e. Blanks, and the
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

// Clip is Text of at most so many bytes of s, and an ellipsis where there were more.
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
