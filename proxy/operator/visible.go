package operator

import (
	"fmt"
	"strings"
	"unicode"
)

// visible writes the characters of text that a terminal, a browser or a reader would obey instead
// of showing as escapes, such as \u001b: control characters but tab and line feed, and marks that
// change the direction of text.
func visible(text string) string {
	if strings.IndexFunc(text, invisible) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if invisible(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func invisible(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
