package shape

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// List is one of the lists that a document consists of.
type List struct {
	Path  string // "catalogue.gallery", "banners"
	Items int
}

// Lists counts the elements of a document's lists, in the documented order: of the catalogue
// artist, artwork and gallery, of the others the array itself. Body is the result of [Normalize];
// its elements are skipped, not decoded.
func Lists(r Resource, body []byte) ([]List, error) {
	if !r.Valid() {
		return nil, fmt.Errorf("lists: no resource %q", r)
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	if r != Catalogue {
		n, err := countArray(d)
		return []List{{Path: string(r), Items: n}}, err
	}
	if err := begin(d, '{'); err != nil {
		return nil, err
	}
	var counted []List
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("lists of %s: %w", r, err)
		}
		path := string(r) + "." + name.String()
		n, err := countArray(d)
		if err != nil {
			return nil, err
		}
		counted = append(counted, List{Path: path, Items: n})
	}
	return counted, nil
}

func countArray(d *jsontext.Decoder) (n int, err error) {
	if err := begin(d, '['); err != nil {
		return 0, err
	}
	for ; d.PeekKind() != ']'; n++ {
		if err := d.SkipValue(); err != nil {
			return n, fmt.Errorf("lists: %w", err)
		}
	}
	_, err = d.ReadToken()
	return n, err
}

// begin reads the opening delimiter of a list or of the document.
func begin(d *jsontext.Decoder, want jsontext.Kind) error {
	if got := d.PeekKind(); got != want {
		return fmt.Errorf("lists: want %q, got %q", rune(want), rune(got))
	}
	_, err := d.ReadToken()
	return err
}
