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
	// maxDepth bounds nesting, also in what is dropped or passed through. The
	// documents themselves are seven deep.
	maxDepth = 64
	// A document of nothing but {"id":1} grows thirty-fold when its missing
	// fields are filled in. It may grow to growth times its size plus slack,
	// so that the limit on what is fetched also limits what is held.
	growth = 8
	slack  = 1 << 20
	// fieldCost is about what an empty field takes, as in "redirect_link_en":"" and a comma.
	fieldCost = 20
)

// decoder reads one document. Its methods that read a value leave the reader
// after that value, or return a *RefusedError and leave it somewhere inside:
// object finds its way out again, unless the refusal is fatal.
type decoder struct {
	root    Resource
	in      []byte
	text    string // in once more; texts without escapes are parts of it
	json    *jsontext.Decoder
	path    path
	repairs Repairs
	scratch []byte // for texts with escapes
	budget  int    // bytes that the normalized document may still grow
	absent  bool   // the field about to be read is not in the object
	fatal   bool   // the reader cannot go on: what came is not JSON
}

func newDecoder(root Resource, in []byte) *decoder {
	d := &decoder{root: root, budget: growth*len(in) + slack}
	if rest, found := bytes.CutPrefix(in, []byte("\uFEFF")); found {
		in = rest
		d.note(KindBOM)
	}
	d.in, d.text = in, string(in)
	// Of a bytes.Buffer jsontext reads the bytes themselves, without a copy and
	// without writing to them. Duplicate names are resolved in object.
	d.json = jsontext.NewDecoder(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
	return d
}

// document reads the one value of a document with read, and what follows it.
func (d *decoder) document(read func() error) error {
	if err := read(); err != nil {
		return err
	}
	if rest := d.rest(d.json.InputOffset()); len(rest) > 0 {
		return &RefusedError{Path: string(d.root), Want: "nothing after the document", Got: excerpt(rest)}
	}
	return nil
}

// rest returns what stands from offset on, without blanks before it.
func (d *decoder) rest(offset int64) []byte {
	return bytes.TrimLeft(d.in[min(offset, int64(len(d.in))):], " \t\r\n")
}

// note counts a repair where the decoder stands.
func (d *decoder) note(k Kind) {
	d.repairs.add(k, func() string { return d.path.render(d.root) })
}

// refuse describes the value that comes, of which want was wanted.
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

// broken turns an error of the reader, which cannot go on, into a refusal.
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

// vacant reads null, or the absence of a field, and counts it: as KindMissing, or
// as the kind that null is here. It reports false where a value comes.
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

// skip reads past one value of any kind.
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

// step reads past one token of something whose shape is not ours.
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
