package exchange

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Garbled are the texts of a body that were not Unicode.
type Garbled struct {
	Count int
	Paths []jsontext.Pointer // of the first few
}

// maxGarbled is how many paths are kept.
const maxGarbled = 5

// readable returns body with U+FFFD for what is not Unicode in its texts: bytes that are not UTF-8,
// and half a surrogate pair, as of an emoji that was cut. It is body itself if there is none, or if
// it is no JSON otherwise.
func readable(body []byte) ([]byte, Garbled) {
	var found Garbled
	if utf8.Valid(body) && !bytes.Contains(body, []byte(`\ud`)) && !bytes.Contains(body, []byte(`\uD`)) {
		return body, found
	}
	lenient := jsontext.AllowInvalidUTF8(true)
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), lenient)
	for kind := d.PeekKind(); kind != 0; kind = d.PeekKind() {
		if kind != '"' {
			if _, err := d.ReadToken(); err != nil {
				return body, Garbled{}
			}
			continue
		}
		text, err := d.ReadValue()
		if err != nil {
			return body, Garbled{}
		}
		if !text.IsValid() {
			if found.Count++; len(found.Paths) < maxGarbled {
				found.Paths = append(found.Paths, d.StackPointer())
			}
		}
	}
	if found.Count == 0 {
		return body, found
	}
	out, err := jsontext.AppendFormat(nil, body, jsontext.AllowDuplicateNames(true), lenient)
	if err != nil {
		return body, Garbled{}
	}
	return out, found
}
