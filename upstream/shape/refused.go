package shape

import (
	"errors"
	"fmt"

	"vitrine/upstream/plain"
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

// excerpt shortens JSON text for a message: on one line, valid UTF-8, and closed by its quote if it
// began with one.
func excerpt(raw []byte) string {
	s := plain.Clip(string(raw[:min(len(raw), 2*maxExcerpt)]), maxExcerpt)
	if len(raw) > maxExcerpt && raw[0] == '"' {
		s += `"`
	}
	return s
}
