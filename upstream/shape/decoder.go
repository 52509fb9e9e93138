package shape

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth bounds nesting, also of values that are dropped or passed through. The documents
	// themselves are seven deep.
	maxDepth = 64
	// spare is more than an object of any type takes beyond what is read of it.
	spare = 1 << 10
)

// decoder reads one document. Its methods that read a value leave the reader after that value, or
// return a *RefusedError and leave it somewhere inside.
type decoder struct {
	root     string // of the paths
	in       []byte
	json     *jsontext.Decoder
	path     path
	repairs  tallies
	scratch  []byte            // for members that are put in order
	lists    map[string]*tally // of the document, by path
	has      uint64            // what the survey notes of the value that was read last
	limit    int               // of what is written, in bytes
	lacking  Repair            // relations that did not come
	dangling Repair            // nulls in lists of related objects
	expanded bool              // these are refused
	absent   bool              // the field about to be read is not in the object
}

func newDecoder(root string, in []byte, limit int, expanded bool) *decoder {
	d := &decoder{root: root, limit: limit, expanded: expanded, lists: make(map[string]*tally)}
	if rest, found := bytes.CutPrefix(in, []byte("\uFEFF")); found {
		in = rest
		d.note(KindBOM)
	}
	d.in = in
	// jsontext reads a bytes.Buffer in place, without copying or modifying it. Duplicate names are
	// resolved in [table.read].
	d.json = jsontext.NewDecoder(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
	return d
}

// begin returns the slice to write to. An eighth more than what is read leaves room for the
// microseconds that a CMS omits from timestamps.
func (d *decoder) begin() []byte { return make([]byte, 0, len(d.in)+len(d.in)/8+spare) }

// room returns dst with room for an object's missing fields, or refuses a document that is written
// beyond its limit: [{"id":1},…] grows thirty-fold. At most a doubling is allocated at a time, and
// less if the part that was read tells how much the whole will take.
func (d *decoder) room(dst []byte) ([]byte, error) {
	switch {
	case len(dst) > d.limit:
		return dst, &RefusedError{Path: d.here(), Want: fmt.Sprintf("a document of at most %d bytes", d.limit), Got: "more"}
	case cap(dst)-len(dst) >= spare:
		return dst, nil
	}
	foreseen := float64(len(dst)) / float64(max(d.json.InputOffset(), 1)) * float64(len(d.in))
	size := max(min(int(foreseen)+int(foreseen)/32, 2*len(dst), d.limit), len(dst)+len(dst)/8) + 2*spare
	return append(make([]byte, 0, size), dst...), nil
}

// note counts a repair at the current path.
func (d *decoder) note(k Kind) {
	d.repairs.of(k).Add(d.here)
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
	return &RefusedError{Path: d.here(), Want: want, Got: got}
}

// broken turns an error of the reader, which cannot continue, into a refusal.
func (d *decoder) broken(err error) error {
	return Broken(d.here(), d.in, d.json.InputOffset(), err)
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

// step reads one token.
func (d *decoder) step() error {
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	if d.json.StackDepth() > maxDepth {
		return d.refused(fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	return nil
}

// unquote returns the text of a string that was just read. Without escapes it is a slice of the
// input, and nothing is allocated.
func (d *decoder) unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		end := d.json.InputOffset()
		return d.in[end-int64(len(raw))+1 : end-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // valid: the reader read it
	return text
}

// path is the decoder's position: a frame for each open object or array. It is rendered as text
// only for a repair that is kept or a refusal.
type path []frame

// frame is one step: the current field of an object, or index of an array.
type frame struct {
	field []byte // nil in an array, and in an object before its first field
	index int    // -1 in an object
}

// here is the decoder's position as text.
func (d *decoder) here() string { return d.path.render(d.root) }

// render returns the path as text: catalogue.gallery[0].address[1].city.id.
func (p path) render(root string) string {
	for _, f := range p {
		switch {
		case f.index >= 0:
			root = Index(root, f.index)
		case f.field != nil:
			root = Member(root, string(f.field))
		}
	}
	return root
}
