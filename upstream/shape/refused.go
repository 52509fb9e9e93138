package shape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/sanitize"
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

// maxExcerpt bounds a quotation from the CMS, in characters.
const maxExcerpt = 40

// excerpt shortens JSON text for a message: on one line, valid UTF-8, and closed by its quote if it
// began with one.
func excerpt(raw []byte) string {
	s := sanitize.Clip(string(raw[:min(len(raw), 4*(maxExcerpt+1))]), maxExcerpt)
	if raw[0] == '"' && strings.HasSuffix(s, "…") {
		s += `"`
	}
	return s
}

// Index is the path of an element of a list.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Member is the path of a member of an object. A name that would be hard to read in it is quoted, and
// shortened: ["a b"].
func Member(path, name string) string {
	if plainName.MatchString(name) {
		return path + "." + name
	}
	quoted, _ := jsontext.AppendQuote(nil, name) // U+FFFD for what is not Unicode
	return path + "[" + excerpt(quoted) + "]"
}

var plainName = regexp.MustCompile(`^[\w-]{1,40}$`)

// Broken refuses input that a reader of JSON cannot continue with. path and offset are the
// reader's.
func Broken(path string, in []byte, offset int64, err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
	}
	at := min(int(offset), len(in))
	rest := in[at:]
	refuse := func(want, got string) error { return &RefusedError{Path: path, Want: want, Got: got} }
	switch r, size := utf8.DecodeRune(rest); {
	case len(bytes.TrimLeft(in, blanks)) == 0:
		return refuse("a JSON document", "nothing")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("the rest of the document", fmt.Sprintf("its end after %d bytes", len(in)))
	case r == utf8.RuneError && size == 1:
		return refuse("valid UTF-8", fmt.Sprintf("byte %#02x at offset %d", rest[0], at))
	case bytes.HasPrefix(rest, []byte(`\u`)):
		return refuse("valid Unicode", fmt.Sprintf("%s at offset %d", excerpt(rest[:min(6, len(rest))]), at))
	default:
		return refuse("JSON", fmt.Sprintf("%s at offset %d", excerpt(rest), at))
	}
}

// Ended refuses anything after a document that ends at an offset.
func Ended(path string, in []byte, offset int64) error {
	if rest := bytes.TrimLeft(in[min(offset, int64(len(in))):], blanks); len(rest) > 0 {
		return &RefusedError{Path: path, Want: "nothing after the document", Got: excerpt(rest)}
	}
	return nil
}

const blanks = " \t\r\n"
