// Package sanitize makes foreign text (of visitors, the CMS, Redis, YAML) safe for a log line, a
// terminal, a page or a notification: what would move the cursor, or break, reorder or disguise a
// line, is escaped. [Text] is for one piece of text, [JSON] for a whole document.
package sanitize

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Most is how many characters [Text] returns at most.
const Most = 300

// Text is [Clip] to [Most] characters, the ellipsis included.
func Text(s string) string { return Clip(s, Most-1) }

// Clip returns s with invisible characters escaped as in Go (\x1b, \n, \u202e) and invalid UTF-8
// replaced. Spaces, and the joiner inside emoji, stay. Of more than most characters, those beyond are
// replaced by an ellipsis.
func Clip(s string, most int) string {
	if len(s) <= most && !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	count := 0
	for _, r := range s {
		text := string(r) // U+FFFD for a byte that is not UTF-8
		if hidden(r) {
			text = strconv.QuoteRuneToASCII(r)
			text = text[1 : len(text)-1]
		}
		if count += utf8.RuneCountInString(text); count > most {
			out.WriteString("…")
			break
		}
		out.WriteString(text)
	}
	return out.String()
}

// JSON returns text, which is JSON or HTML, with its invisible characters but tabs and line feeds
// escaped as in JSON: its strings have the same values. Invalid UTF-8 is replaced.
func JSON(text string) string {
	if !strings.ContainsFunc(text, hiddenInJSON) && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if !hiddenInJSON(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

func hiddenInJSON(r rune) bool { return hidden(r) && r != '\n' && r != '\t' }

// hidden covers the controls C0 and C1, marks of direction, separators of lines, and unassigned
// characters.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200d' }
