package list

import (
	"net/url"
	"strconv"
	"strings"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// place is the position of a walk in its list.
type place struct {
	page   int    // number of pages requested, this one included
	offset int    // number of items before
	size   int    // of the first page, if the CMS chose it
	query  string // of a link
	cursor string
}

// next returns the place after at, if the list continues. items is their number so far.
func (w *walk) next(at place, want exchange.Request, page mapping.Page, items, total int) (next place, more bool, err error) {
	next = place{page: at.page + 1, offset: items, size: max(at.size, len(page.Items))}
	if page.Whole {
		return next, false, nil
	}
	switch w.part.Paging.Style {
	case PagingPage, PagingOffset:
		switch {
		case page.Pages >= 0 && w.part.Paging.Style == PagingPage:
			return next, at.page < page.Pages, nil
		case len(page.Items) == 0:
			return next, false, nil
		case total >= 0:
			return next, items < total, nil
		case page.Size > 0:
			return next, len(page.Items) >= page.Size, nil
		default: // Only an empty page is the end: a short one may be the CMS's maximum.
			return next, true, nil
		}
	case PagingLink, PagingHeader:
		if page.Next == "" {
			return next, false, nil
		}
		next.query, err = w.cms.Follow(want, page.Next, w.part.Paging.Hosts)
		if err != nil {
			return next, false, &shape.RefusedError{Path: w.part.root, Want: "a link to the next page of the same list", Got: err.Error()}
		}
		return next, true, nil
	case PagingCursor:
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
		Limit: exchange.Limit{Left: max(w.spend.left.Load(), 1), Most: w.recipe.maxBytes}, Held: held,
	}
	if at.query != "" {
		// The link has the whole query, including the path's.
		want.Path, _, _ = strings.Cut(p.Path, "?")
		want.Query = at.query
		return want
	}
	query := url.Values{}
	for name, values := range p.Query {
		query[name] = values
	}
	first := 1
	if p.Paging.First != nil {
		first = *p.Paging.First
	}
	size := strconv.Itoa(p.Paging.Size)
	switch p.Paging.Style {
	case PagingPage:
		query.Set(p.Paging.Param, strconv.Itoa(first+at.page-1))
	case PagingOffset:
		query.Set(p.Paging.Param, strconv.Itoa(at.offset))
		if p.all != "" && at.page == 1 {
			size = p.all
		} else if p.all != "" {
			size = strconv.Itoa(at.size)
		}
	case PagingCursor:
		if at.cursor != "" {
			query.Set(p.Paging.Param, at.cursor)
		}
	}
	if p.Paging.SizeParam != "" && p.list {
		query.Set(p.Paging.SizeParam, size)
	}
	want.Query = query.Encode()
	return want
}
