package mapping

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/shape"
)

// Readable returns body with U+FFFD for what is not Unicode in its texts: bytes that are not UTF-8,
// and half a surrogate pair, as of an emoji that was cut. It is body itself if there is none, or if
// it is no JSON otherwise. It also returns that as a repair of the list at root.
func Readable(root string, body []byte) ([]byte, shape.Repair) {
	none := shape.Repair{Kind: shape.KindText}
	if utf8.Valid(body) && !bytes.Contains(body, []byte(`\ud`)) && !bytes.Contains(body, []byte(`\uD`)) {
		return body, none
	}
	made, lenient := none, jsontext.AllowInvalidUTF8(true)
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), lenient)
	for kind := d.PeekKind(); kind != 0; kind = d.PeekKind() {
		if kind != '"' {
			if _, err := d.ReadToken(); err != nil {
				return body, none
			}
			continue
		}
		text, err := d.ReadValue()
		if err != nil {
			return body, none
		}
		if !text.IsValid() {
			made.Add(func() string { return place(root, d.StackPointer()) })
		}
	}
	if made.Count == 0 {
		return body, none
	}
	out, err := jsontext.AppendFormat(nil, body, jsontext.AllowDuplicateNames(true), lenient)
	if err != nil {
		return body, none
	}
	return out, made
}
