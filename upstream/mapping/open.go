package mapping

import (
	"context"
	"fmt"
	"net/http"
)

// Opening is a response whose items are to be found. It is plain data, like [Composition].
type Opening struct {
	Preset string
	Root   string // the path of the list in the document
	List   bool   // otherwise it is one object
	Body   []byte `json:"-"`
	Header http.Header
	// Items, Total and Next are the operator's programs; nil means the preset's.
	Items, Total, Next, ID *Program
	Left, MaxItems         int // maximum items of the response, and of all pages
	MaxBytes               int // of the items together
}

func (o *Opening) programs() bool {
	return o.Items != nil || o.Total != nil || o.Next != nil || o.ID != nil
}

// run finds the items of a response and its paging.
func (o *Opening) run(ctx context.Context) (Page, error) {
	preset, _ := Lookup(o.Preset)
	page := Page{Total: -1, Pages: -1}
	var err error
	if o.Items == nil {
		if page, err = preset.Open(o.Root, o.List, o.Left, o.MaxItems, o.Body, o.Header); err != nil || !o.programs() {
			page.More = More(nil, o.Header, len(page.Items))
			return page, err
		}
	}
	v, err := Decode(o.Root, o.Body)
	if err != nil {
		return page, err
	}
	if err := graphQLError(o.Root, v); err != nil {
		return page, err
	}
	if o.Items != nil {
		if page.Items, err = o.find(ctx, v); err != nil {
			return page, err
		}
	}
	page.More = More(v, o.Header, len(page.Items))
	if o.ID != nil {
		if page.IDs, err = o.identify(ctx, page.Items); err != nil {
			return page, err
		}
	}
	if o.Total != nil {
		var found any
		if found, err = o.Total.one(ctx, o.Root, v); err == nil {
			page.Total, err = countOf(o.Root, found)
		}
	}
	if o.Next != nil && err == nil {
		var found any
		if found, err = o.Next.one(ctx, o.Root, v); err == nil {
			page.Next, err = text(o.Root, found)
		}
	}
	return page, err
}

// find runs the program that finds the list, or the object.
func (o *Opening) find(ctx context.Context, v any) ([][]byte, error) {
	found, err := o.Items.one(ctx, o.Root, v)
	if err != nil {
		return nil, err
	}
	values, ok := found.([]any)
	if !o.List {
		values, ok = []any{found}, true
	}
	switch {
	case !ok:
		return nil, refuse(o.Root, "a list from the program that finds the items", "something else")
	case len(values) > o.Left:
		return nil, refuse(o.Root, fmt.Sprintf("at most %d items", o.MaxItems), "more")
	}
	items := make([][]byte, len(values))
	left := o.MaxBytes
	for i, value := range values {
		if items[i], err = Append(nil, index(o.Root, i), value, o.MaxBytes); err != nil {
			return nil, err
		}
		if left -= len(items[i]); left < 0 {
			return nil, refuse(o.Root, fmt.Sprintf("at most %d bytes", o.MaxBytes), "more")
		}
	}
	return items, nil
}

// identify runs the program that finds the identity of an item.
func (o *Opening) identify(ctx context.Context, items [][]byte) ([]string, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		path := index(o.Root, i)
		v, err := Decode(path, item)
		if err != nil {
			return nil, err
		}
		found, err := o.ID.one(ctx, path, v)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, refuse(path, "the item's identity from the program", "null")
		}
		id, err := Append(nil, path, found, 1<<10)
		if err != nil {
			return nil, err
		}
		ids[i] = string(id)
	}
	return ids, nil
}
