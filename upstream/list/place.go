package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync/atomic"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// walk reads one part to its end.
type walk struct {
	recipe *Recipe
	part   *part
	cms    *exchange.Client
	left   *atomic.Int64 // bytes, for all responses of the document
}

// walked is the result of a walk.
type walked struct {
	items      [][]byte
	responses  []mapping.Response // that they came in
	untouched  []byte             // the document itself, if it needs no mapping
	last       exchange.Answer
	validators exchange.Validators // of the one answer that is the whole list
	pages      int
	attempts   int
	bytes      int
	drafts     int    // items that the CMS marks as unpublished
	more       string // what shows that the list goes on, where nothing says how
}

// place is the position of a walk in its list.
type place struct {
	page   int    // number of pages requested, this one included
	offset int    // number of items before
	size   int    // of the first page, if the CMS chose it
	query  string // of a link
	cursor string
}

// maxNext bounds a link or a cursor. It becomes part of a URL, which no server takes at twice this
// length, and a link is read in time that grows with its square.
const maxNext = 16 << 10

// next returns the place after at, if the list continues. items is their number so far.
func (w *walk) next(at place, want exchange.Request, page mapping.Page, items, total int) (next place, more bool, err error) {
	next = place{page: at.page + 1, offset: items, size: max(at.size, len(page.Items))}
	if page.Whole {
		return next, false, nil
	}
	if len(page.Next) > maxNext {
		return next, false, &shape.RefusedError{Path: w.part.root, Want: fmt.Sprintf("a link or cursor of at most %d bytes", maxNext), Got: mapping.Clip(page.Next)}
	}
	switch w.part.Paging.Style {
	case source.PagingPage, source.PagingOffset:
		switch {
		case len(page.Items) == 0:
			return next, false, nil
		case total >= 0:
			return next, items < total, nil
		default: // Only an empty page is the end: a short one may be the CMS's maximum.
			return next, true, nil
		}
	case source.PagingLink, source.PagingHeader:
		if page.Next == "" {
			return next, false, nil
		}
		next.query, err = w.cms.Follow(want, page.Next, w.part.Paging.Hosts)
		if err != nil {
			return next, false, &shape.RefusedError{Path: w.part.root, Want: "a link to the next page of the same list", Got: err.Error()}
		}
		return next, true, nil
	case source.PagingCursor:
		next.cursor = page.Next
		return next, page.Next != "", nil
	default:
		return next, false, nil
	}
}

// request returns the request for the page at a place.
func (w *walk) request(at place, held exchange.Validators) exchange.Request {
	p := w.part
	want := exchange.Request{
		Resource: string(w.recipe.resource), Part: p.Name, Page: at.page, Path: p.Path, Headers: p.Headers,
		Totals: p.Paging.TotalHeader,
		Limit:  exchange.Limit{Left: w.left, Most: w.recipe.maxBytes}, Held: held,
	}
	query := maps.Clone(p.Query)
	if query == nil {
		query = url.Values{}
	}
	body := p.Body.Value
	put := func(name string, value any) {
		if object, ok := body.(map[string]any); ok {
			body = with(object, name, value)
		} else if body == nil {
			query.Set(name, fmt.Sprint(value))
		}
	}
	first := 1
	if p.Paging.First != nil {
		first = *p.Paging.First
	}
	switch p.Paging.Style {
	case source.PagingPage:
		put(p.Paging.Param, first+at.page-1)
	case source.PagingOffset:
		put(p.Paging.Param, at.offset)
	case source.PagingCursor:
		if at.cursor != "" {
			put(p.Paging.Param, at.cursor)
		}
	}
	if p.Paging.SizeParam != "" && p.list {
		switch {
		case !p.all || p.Paging.Style != source.PagingOffset:
			put(p.Paging.SizeParam, p.Paging.Size)
		case at.page == 1:
			put(p.Paging.SizeParam, -1)
		default:
			put(p.Paging.SizeParam, at.size)
		}
	}
	want.Query = query.Encode()
	if at.query != "" { // the link has the whole query, including the path's
		want.Path, _, _ = strings.Cut(p.Path, "?")
		want.Query = at.query
	}
	switch {
	case body != nil:
		want.Body, _ = json.Marshal(body) // which Parse has tried
		want.Type = "application/json"
	case p.Body.Text != "":
		want.Body, want.Type = []byte(p.Body.Text), "text/plain; charset=utf-8"
	}
	return want
}

// with is an object with another value at a path, variables.after.
func with(object map[string]any, path string, value any) map[string]any {
	made := make(map[string]any)
	maps.Copy(made, object)
	name, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, _ := made[name].(map[string]any)
		value = with(inner, rest, value)
	}
	made[name] = value
	return made
}

// failed is an error of processing complete responses.
func failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shape.ErrRefused) {
		return exchange.Late(op, err)
	}
	return &exchange.Error{Op: op, Kind: exchange.ErrAnswer, Err: err}
}
