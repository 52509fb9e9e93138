package upstream

import (
	"net/url"
	"strconv"

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// place is where in its list a walk is.
type place struct {
	page   int    // how many pages were asked for, this one included
	offset int    // how many items came before
	size   int    // of the first page, where the CMS chose it
	query  string // of a link
	cursor string
}

// next is the place after at, if the list goes on. items have come so far.
func (w *walk) next(at place, want request, page mapping.Page, items, total int) (place, bool, error) {
	next := place{page: at.page + 1, offset: items, size: max(at.size, len(page.Items))}
	if page.Whole {
		return next, false, nil
	}
	switch w.part.paging.Style {
	case PagingPage, PagingOffset:
		switch {
		case page.Pages >= 0 && w.part.paging.Style == PagingPage:
			return next, at.page < page.Pages, nil
		case len(page.Items) == 0:
			return next, false, nil
		case total >= 0:
			return next, items < total, nil
		case page.Size > 0:
			return next, len(page.Items) >= page.Size, nil
		default: // Only an empty page is the end: a short one may be all that the CMS ever gives.
			return next, true, nil
		}
	case PagingLink, PagingHeader:
		if page.Next == "" {
			return next, false, nil
		}
		link, err := w.ask.follow(want, page.Next, w.part.paging.Hosts)
		if err != nil {
			return next, false, &shape.RefusedError{Path: w.part.root, Want: "a link to the next page of the same list", Got: err.Error()}
		}
		next.query = link.RawQuery
		return next, true, nil
	case PagingCursor:
		next.cursor = page.Next
		return next, page.Next != "", nil
	default:
		return next, false, nil
	}
}

// request is the one for the page at a place.
func (w *walk) request(at place) request {
	p := w.part
	want := request{
		resource: w.recipe.resource, part: p.name, page: at.page, path: p.path, headers: p.headers,
		limit: sizeLimit{max(w.spend.left.Load(), 1), w.recipe.maxBytes},
	}
	if at.query != "" {
		// The link has the whole query, that of the path included.
		want.path, want.query = pathOnly(p.path), at.query
		return want
	}
	query := url.Values{}
	for name, values := range p.query {
		query[name] = values
	}
	first := 1
	if p.paging.First != nil {
		first = *p.paging.First
	}
	size := strconv.Itoa(p.paging.Size)
	switch p.paging.Style {
	case PagingPage:
		query.Set(p.paging.Param, strconv.Itoa(first+at.page-1))
	case PagingOffset:
		query.Set(p.paging.Param, strconv.Itoa(at.offset))
		if p.all != "" && at.page == 1 {
			size = p.all
		} else if p.all != "" {
			size = strconv.Itoa(at.size)
		}
	case PagingCursor:
		if at.cursor != "" {
			query.Set(p.paging.Param, at.cursor)
		}
	}
	if p.paging.SizeParam != "" && p.list {
		query.Set(p.paging.SizeParam, size)
	}
	want.query = query.Encode()
	return want
}
