package mapping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"vitrine/upstream/shape"
)

// Page is one response without its envelope.
type Page struct {
	Items   [][]byte     // each the JSON of one item, unchanged
	Total   int          // total items; -1 if unknown
	Next    string       // the link or cursor of the next page
	Whole   bool         // a plain list where an envelope could be: nothing follows
	Missing shape.Repair // relations that the program for the items found to lead nowhere
	More    string       // what shows that something follows, if paging is not configured
}

// Opening is a response whose items are to be found.
type Opening struct {
	Root   string // the path of the list in the document
	List   bool   // otherwise it is one object
	Paged  bool   // it has several pages, of which this may be the last
	Body   []byte
	Header http.Header
	// Items, Total and Next are programs. Without Items, the response itself is the list.
	Items, Total, Next *Program
	Left, MaxItems     int // maximum items of the response, and of all pages
	MaxBytes           int // of the items together
}

// Open finds the items of a response and its paging. Programs that are paths are evaluated while
// the response is read; for any other it is decoded whole.
func (o *Opening) Open(ctx context.Context) (page Page, err error) {
	page.Total = -1
	var around any // the response without its items
	if o.straight() {
		around, err = o.read(&page)
	} else {
		around, err = o.decode(ctx, &page)
	}
	page.More = More(around, o.Header, len(page.Items), o.Paged)
	if err != nil || page.Whole {
		return page, err
	}
	found, ok, err := o.Total.find(ctx, o.Root, around)
	if err == nil && ok {
		page.Total, err = o.Total.count(o.Root, found)
	}
	if err != nil {
		return page, err
	}
	if found, ok, err = o.Next.find(ctx, o.Root, around); err == nil && ok {
		page.Next, err = o.Next.text(o.Root, found)
	}
	return page, err
}

// find runs a program that yields at most one value; nil finds nothing.
func (p *Program) find(ctx context.Context, path string, in any) (found any, ok bool, err error) {
	if p == nil {
		return nil, false, nil
	}
	err = p.Run(ctx, path, in, 1, func(v any) error {
		found, ok = v, true
		return nil
	})
	return found, ok, err
}

// straight reports whether the response can be read without being decoded.
func (o *Opening) straight() bool {
	isPath := func(p *Program) bool { return p == nil || p.ways != nil }
	return isPath(o.Total) && isPath(o.Next) && isPath(o.Items) &&
		(o.Items == nil || len(o.Items.ways) == 1 || len(o.Items.ways) == 2 && o.Items.ways[1] == nil)
}

// maxAround bounds the memory of what is decoded of a response besides its items.
const maxAround = 1 << 20

// read takes the items out of a response and decodes what is around them.
func (o *Opening) read(page *Page) (around any, err error) {
	d := newReader(o.Root, o.Body)
	defer d.free()
	var steps []string
	fallback := true
	if o.Items != nil {
		steps, fallback = o.Items.ways[0], len(o.Items.ways) == 2
	}
	found := false
	switch {
	case len(steps) == 0 || fallback && d.json.PeekKind() != '{':
		found, page.Whole = true, len(steps) > 0
		err = o.take(d, o.Root, page)
	case d.json.PeekKind() != '{':
		err = d.unlike(o.Root, "an object with "+o.Items.source)
	default:
		members, room := make(map[string]any), maxAround
		found, err = o.descend(d, steps, members, &room, page)
		around = members
	}
	if err == nil {
		err = d.end()
	}
	switch {
	case err != nil || found:
		return around, err
	case fallback && !o.List: // the object is the item
		page.Whole = true
		page.Items = [][]byte{bytes.TrimSpace(d.in)}
		return nil, nil //nolint:nilnil // nothing is around it
	}
	return nil, refuse(o.Root, "a list at "+strings.Fields(o.Items.source)[0], "an object with "+keys(around))
}

// take takes the list, or the object, at the reader.
func (o *Opening) take(d *reader, path string, page *Page) (err error) {
	if o.List {
		page.Items, err = d.list(path, o.Left, o.MaxItems)
		return err
	}
	page.Items = make([][]byte, 1)
	page.Items[0], err = d.raw()
	return err
}

// descend reads an object, and takes the items at the end of steps.
func (o *Opening) descend(d *reader, steps []string, around map[string]any, room *int, page *Page) (found bool, err error) {
	err = d.members(func(name string) error {
		kind := d.json.PeekKind()
		if name == steps[0] { // of a repeated name the last value counts
			found, page.Items = false, nil
		}
		switch {
		case name != steps[0] || kind == 'n':
			return o.keep(d, name, around, room)
		case len(steps) > 1 && kind == '{':
			inner := make(map[string]any)
			around[name] = inner
			found, err = o.descend(d, steps[1:], inner, room, page)
			return err
		case len(steps) > 1:
			return o.keep(d, name, around, room)
		}
		found = true
		return o.take(d, o.Root+"."+name, page)
	})
	return found, err
}

// keep decodes a member around the items, if a program wants it or it is small.
func (o *Opening) keep(d *reader, name string, around map[string]any, room *int) error {
	const small = 4 << 10
	raw, err := d.raw()
	if err != nil || len(raw) > small && !o.wants(name) {
		return err
	}
	v, err := decode(o.Root+"."+name, raw, room)
	around[name] = v
	if name == "errors" {
		err = errors.Join(err, graphQLError(o.Root, around))
	}
	return err
}

// wants reports whether a path goes through a member of that name.
func (o *Opening) wants(name string) bool {
	for _, p := range []*Program{o.Total, o.Next} {
		if p != nil && slices.ContainsFunc(p.ways, func(way []string) bool { return slices.Contains(way, name) }) {
			return true
		}
	}
	return name == "errors"
}

// keys lists the members of an object, for an error about a missing one.
func keys(v any) string {
	object, _ := v.(map[string]any)
	names := slices.Sorted(maps.Keys(object))
	if len(names) == 0 {
		return "none that are small"
	}
	return Clip(strings.Join(names, ", "))
}

// decode decodes a response, and runs the program that finds the items.
func (o *Opening) decode(ctx context.Context, page *Page) (v any, err error) {
	budget := programMemory + programFactor*len(o.Body)
	if v, err = decode(o.Root, o.Body, &budget); err != nil {
		return nil, err
	}
	if err := graphQLError(o.Root, v); err != nil {
		return nil, err
	}
	found := v
	if o.Items != nil {
		if found, err = o.Items.One(ctx, o.Root, v); err != nil {
			return nil, err
		}
	}
	values, ok := found.([]any)
	if !o.List {
		values, ok = []any{found}, true
	}
	switch {
	case !ok:
		return nil, o.Items.wrong(o.Root, "want a list, got %s", gojq.TypeOf(found))
	case len(values) > o.Left:
		return nil, refuse(o.Root, fmt.Sprintf("at most %d items", o.MaxItems), "more")
	}
	page.Items = make([][]byte, len(values))
	left := o.MaxBytes
	for i, value := range values {
		if page.Items[i], err = Append(nil, shape.Index(o.Root, i), value, Limits{Bytes: o.MaxBytes, Missing: &page.Missing}); err != nil {
			return nil, err
		}
		if left -= len(page.Items[i]); left < 0 {
			return nil, refuse(o.Root, fmt.Sprintf("at most %d bytes", o.MaxBytes), "more")
		}
	}
	return v, nil
}
