package shape

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrRefused matches every refusal: the CMS sent something that does not have the documented shape
// and cannot be repaired.
var ErrRefused = errors.New("document refused")

// RefusedError says why a document was refused. Got quotes the CMS, so it belongs in logs and on
// the operator's page, not in public responses.
type RefusedError struct {
	Path string // where: banners[3].id
	Want string // what the interface documents there: an integer
	Got  string // what was there, shortened: "x"
}

// Error returns path, want and got: banners[3].id: want an integer, got "x".
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: want %s, got %s", e.Path, e.Want, e.Got)
}

// Is makes every refusal an [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// maxExcerpt bounds a quotation from the CMS, in bytes.
const maxExcerpt = 40

// excerpt shortens JSON text for a message: at most maxExcerpt bytes of it, on one line, valid
// UTF-8, and closed by its quote if it began with one.
func excerpt(raw []byte) string {
	short := len(raw) <= maxExcerpt
	if !short {
		raw = raw[:maxExcerpt]
		for len(raw) > 0 && !utf8.RuneStart(raw[len(raw)-1]) {
			raw = raw[:len(raw)-1]
		}
		if n := len(raw); n > 0 && raw[n-1] >= utf8.RuneSelf {
			raw = raw[:n-1] // the first byte of the rune that was cut
		}
	}
	s := strings.Map(printable, strings.ToValidUTF8(string(raw), "\uFFFD"))
	switch {
	case short:
		return s
	case strings.HasPrefix(s, `"`):
		return s + `…"`
	default:
		return s + "…"
	}
}

// printable replaces characters that would break or disguise a log line.
func printable(r rune) rune {
	switch {
	case r < ' ' || r == 0x7f:
		return ' '
	case r == '\u2028', r == '\u2029', r >= 0x80 && r <= 0x9f, r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return '\uFFFD'
	default:
		return r
	}
}
