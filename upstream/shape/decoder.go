package shape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth bounds nesting, also of values that are dropped or passed through. The documents
	// themselves are seven deep.
	maxDepth = 64
	// A document of nothing but {"id":1} grows thirty-fold when its missing fields are filled in.
	// It may grow to growth times its size plus slack, so that the limit on a fetch also limits the
	// document.
	growth = 8
	slack  = 1 << 20
	// fieldCost is about the size of an empty field, as in "redirect_link_en":"" and a comma.
	fieldCost = 20
)

// decoder reads one document. Its methods that read a value leave the reader after that value, or
// return a *RefusedError and leave it somewhere inside; object recovers from that, unless the
// refusal is fatal.
type decoder struct {
	root    Resource
	in      []byte
	text    string // a copy of in; strings without escapes are slices of it
	json    *jsontext.Decoder
	path    path
	repairs Repairs
	scratch []byte // for strings with escapes
	budget  int    // bytes by which the normalized document may still grow
	lacking tally  // relations that did not come
	absent  bool   // the field about to be read is not in the object
	fatal   bool   // the reader cannot continue: the input is not JSON
}

func newDecoder(root Resource, in []byte) *decoder {
	d := &decoder{root: root, budget: growth*len(in) + slack}
	if rest, found := bytes.CutPrefix(in, []byte("\uFEFF")); found {
		in = rest
		d.note(KindBOM)
	}
	d.in, d.text = in, string(in)
	// jsontext reads a bytes.Buffer in place, without copying or modifying it. Duplicate names are
	// resolved in object.
	d.json = jsontext.NewDecoder(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
	return d
}

// document reads the value of a document with read, and refuses anything after it.
func (d *decoder) document(read func() error) error {
	if err := read(); err != nil {
		return err
	}
	if rest := d.rest(d.json.InputOffset()); len(rest) > 0 {
		return &RefusedError{Path: string(d.root), Want: "nothing after the document", Got: excerpt(rest)}
	}
	return nil
}

// rest returns the input from offset on, without leading white space.
func (d *decoder) rest(offset int64) []byte {
	return bytes.TrimLeft(d.in[min(offset, int64(len(d.in))):], " \t\r\n")
}

// note counts a repair at the current path.
func (d *decoder) note(k Kind) {
	d.repairs.add(k, func() string { return d.path.render(d.root) })
}

// refuse reads the next value and refuses it, saying what was wanted.
func (d *decoder) refuse(want string) error {
	if d.absent {
		return d.refused(want, "nothing")
	}
	switch d.json.PeekKind() {
	case '{':
		return d.refused(want, "an object")
	case '[':
		return d.refused(want, "a list")
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return d.broken(err)
	}
	return d.refused(want, excerpt(raw))
}

func (d *decoder) refused(want, got string) error {
	return &RefusedError{Path: d.path.render(d.root), Want: want, Got: got}
}

// broken turns an error of the reader, which cannot continue, into a refusal.
func (d *decoder) broken(err error) error {
	d.fatal = true
	offset := d.json.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
	}
	at := min(int(offset), len(d.in))
	rest := d.in[at:]
	switch r, size := utf8.DecodeRune(rest); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if len(d.rest(0)) == 0 {
			return d.refused("a JSON document", "nothing")
		}
		return d.refused("the rest of the document", fmt.Sprintf("its end after %d bytes", len(d.in)))
	case r == utf8.RuneError && size == 1:
		return d.refused("valid UTF-8", fmt.Sprintf("byte %#02x at offset %d", rest[0], at))
	case bytes.HasPrefix(rest, []byte(`\u`)):
		return d.refused("valid Unicode", fmt.Sprintf("%s at offset %d", excerpt(rest[:min(6, len(rest))]), at))
	default:
		return d.refused("JSON", fmt.Sprintf("%s at offset %d", excerpt(rest), at))
	}
}

// vacant reads null, or the absence of a field, and counts it: as KindMissing, or null as the given
// kind. It reports false if there is a value.
func (d *decoder) vacant(null Kind) (bool, error) {
	if d.absent {
		d.note(KindMissing)
		return true, nil
	}
	if d.json.PeekKind() != 'n' {
		return false, nil
	}
	if _, err := d.json.ReadToken(); err != nil {
		return false, d.broken(err)
	}
	d.note(null)
	return true, nil
}

// skip skips one value of any kind.
func (d *decoder) skip() error {
	depth := d.json.StackDepth()
	for {
		if err := d.step(); err != nil {
			return err
		}
		if d.json.StackDepth() <= depth {
			return nil
		}
	}
}

// step skips one token of a value without a documented shape.
func (d *decoder) step() error {
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	if d.json.StackDepth() > maxDepth {
		d.fatal = true
		return d.refused(fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	return nil
}

// unquote returns the text of a string that was just read. Without escapes it is a slice of the
// decoder's copy, and nothing is allocated.
func (d *decoder) unquote(raw jsontext.Value) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		end := int(d.json.InputOffset())
		return d.text[end-len(raw)+1 : end-1]
	}
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], raw) // valid: the reader read it
	return string(d.scratch)
}

// unquoted returns the text of any string.
func unquoted(raw jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, raw) // valid: the reader read it
	return string(b)
}

// unrelated counts a relation that is about to be read, if it did not come.
func (d *decoder) unrelated() {
	if !d.absent {
		return
	}
	if d.lacking.count++; len(d.lacking.paths) < maxPaths {
		d.lacking.paths = append(d.lacking.paths, d.path.render(d.root))
	}
}
