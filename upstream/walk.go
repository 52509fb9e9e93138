package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// PagingError is a list that could not be read to its end as one list.
type PagingError struct {
	Path   string // of the list: catalogue.artist
	Walks  int    // how often it was read from its first page
	Reason string // what was wrong the last time
}

func (e *PagingError) Error() string {
	return fmt.Sprintf("%s: the list was not the same on all of its pages, in %d walks: %s", e.Path, e.Walks, e.Reason)
}

// Is makes a PagingError a refusal of the document.
func (e *PagingError) Is(target error) bool { return target == shape.ErrRefused }

// tornError is a walk in which the list changed.
type tornError struct{ reason string }

func (e *tornError) Error() string { return e.reason }

// walk reads one part to its end.
type walk struct {
	recipe *recipe
	part   *part
	ask    asker
	spend  *budget
}

// walked is what a walk brought.
type walked struct {
	items      [][]byte
	identities []string // of items, where there were several pages
	untouched  []byte   // the document itself, where nothing has to be done with it
	last       answer
	pages      int
	attempts   int
	bytes      int
}

// read walks until the list held still.
func (w *walk) read(ctx context.Context, held Validators) (walked, error) {
	var before []string
	attempts := 0
	for n := 1; ; n++ {
		got, err := w.once(ctx, held)
		attempts += got.attempts
		got.attempts = attempts
		torn, ok := errors.AsType[*tornError](err)
		if err != nil && !ok {
			return got, err
		}
		if err == nil {
			if !w.part.paging.Confirm || got.pages < 2 || before != nil && slices.Equal(before, got.identities) {
				return got, nil
			}
			torn = &tornError{"the items of the last two walks differ"}
			before = got.identities
		}
		if n >= w.part.paging.Walks {
			return got, w.refused(got.last, &PagingError{Path: w.part.root, Walks: n, Reason: torn.reason})
		}
		held = Validators{}
		w.spend.give(got.bytes)
		if err := w.pause(ctx); err != nil {
			return got, w.refused(got.last, err)
		}
	}
}

// pause lets whoever is changing the list get on with it.
func (w *walk) pause(ctx context.Context) error {
	timer := time.NewTimer(w.recipe.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *walk) refused(last answer, err error) error {
	return w.recipe.failed(context.Background(), last, err)
}

// place is where in its list a walk is.
type place struct {
	page   int    // how many pages were asked for, this one included
	offset int    // how many items came before
	size   int    // of the first page, where the CMS chose it
	query  string // of a link
	cursor string
}

// once reads the list from its first page to its last.
func (w *walk) once(ctx context.Context, held Validators) (walked, error) {
	var got walked
	total := -1
	seen := make(map[string]bool)
	asked := make(map[string]bool)
	at := place{page: 1}
	for {
		want := w.request(at)
		if asked[want.query] {
			return got, w.refused(got.last, &shape.RefusedError{Path: w.part.root, Want: "a page that was not read yet", Got: "a link in a circle"})
		}
		asked[want.query] = true
		one, err := w.ask.exchange(ctx, want, held)
		got.attempts += one.attempts
		if err != nil {
			if end, torn := w.past(at, total, err); torn != nil {
				return got, torn
			} else if end {
				break
			}
			one.attempts = 0
			got.last = one
			return got, err
		}
		got.last, got.pages = one, at.page
		if one.notModified {
			return got, nil
		}
		held = Validators{}
		got.bytes += len(one.body)
		if err := w.spend.take(len(one.body), w.recipe.maxBytes); err != nil {
			return got, w.refused(one, err)
		}
		if at.page == 1 && w.recipe.untouched(w.part) && isWhole(one.body, w.part.list) {
			got.untouched = one.body
			return got, nil
		}
		page, err := w.open(ctx, one)
		if err != nil {
			return got, w.recipe.failed(ctx, one, err)
		}
		got.items = append(got.items, page.Items...)
		if len(got.items) > w.part.paging.MaxItems {
			return got, w.refused(one, tooManyItems(w.part))
		}
		if w.part.paging.Total == "-" {
			page.Total = -1
		}
		if page.Total >= 0 && total >= 0 && page.Total != total {
			return got, &tornError{fmt.Sprintf("%d items in all on one page, %d on another", total, page.Total)}
		}
		if page.Total >= 0 {
			total = page.Total
		}
		next, more, err := w.next(at, want, page, len(got.items), total)
		if err != nil {
			return got, w.refused(one, err)
		}
		if more || at.page > 1 {
			if err := w.identify(&got, seen); err != nil {
				return got, err
			}
		}
		if !more {
			break
		}
		if at = next; at.page > w.part.paging.MaxPages {
			return got, w.refused(one, &shape.RefusedError{
				Path: w.part.root, Want: fmt.Sprintf("at most %d pages", w.part.paging.MaxPages), Got: "more"})
		}
	}
	if total >= 0 && total != len(got.items) {
		return got, &tornError{fmt.Sprintf("%d items in all, of which %d came", total, len(got.items))}
	}
	return got, nil
}

func tooManyItems(p *part) error {
	return &shape.RefusedError{Path: p.root, Want: fmt.Sprintf("at most %d items", p.paging.MaxItems), Got: "more"}
}

// identify finds an item that came twice.
func (w *walk) identify(got *walked, seen map[string]bool) error {
	for i := len(got.identities); i < len(got.items); i++ {
		identity := w.recipe.preset.Identity(got.items[i])
		if seen[identity] {
			return &tornError{fmt.Sprintf("item %s came twice", clip(identity))}
		}
		seen[identity] = true
		got.identities = append(got.identities, identity)
	}
	return nil
}

// past says what an error on a later page means: that the list has come to its
// end, or, where it was to go on, that it became shorter.
func (w *walk) past(at place, total int, err error) (end bool, torn error) {
	status, ok := errors.AsType[*StatusError](err)
	if !ok || at.page == 1 || !slices.Contains(w.part.past, status.Code) {
		return false, nil
	}
	style := w.part.paging.Style
	if total < 0 && (style == PagingPage || style == PagingOffset) {
		return true, nil
	}
	return false, &tornError{fmt.Sprintf("page %d is gone (status %d)", at.page, status.Code)}
}

// open finds the items of an answer, and what it says of the rest.
func (w *walk) open(ctx context.Context, one answer) (mapping.Page, error) {
	p := w.part
	if p.items == nil && p.total == nil && p.next == nil {
		page, err := w.recipe.preset.Open(p.root, p.list, one.body, one.header)
		if err == nil && p.paging.Style == PagingHeader {
			page.Next = mapping.NextLink(one.header)
		}
		return page, err
	}
	page := mapping.Page{Total: -1, Pages: -1}
	v, err := mapping.Decode(p.root, one.body)
	if err != nil {
		return page, err
	}
	if p.items == nil {
		if page, err = w.recipe.preset.Open(p.root, p.list, one.body, one.header); err != nil {
			return page, err
		}
	} else if page.Items, err = w.itemsOf(ctx, v); err != nil {
		return page, err
	}
	if p.total != nil {
		found, err := w.recipe.one(ctx, p.total, p.root, v)
		if err != nil {
			return page, err
		}
		if page.Total, err = mapping.Count(p.root, found); err != nil {
			return page, err
		}
	}
	switch {
	case p.next != nil:
		found, err := w.recipe.one(ctx, p.next, p.root, v)
		if err != nil {
			return page, err
		}
		page.Next, err = mapping.Text(p.root, found)
		return page, err
	case p.paging.Style == PagingHeader:
		page.Next = mapping.NextLink(one.header)
	}
	return page, nil
}

// itemsOf runs the program that finds the list, or the object.
func (w *walk) itemsOf(ctx context.Context, v any) ([][]byte, error) {
	found, err := w.recipe.one(ctx, w.part.items, w.part.root, v)
	if err != nil {
		return nil, err
	}
	values, ok := found.([]any)
	if !w.part.list {
		values, ok = []any{found}, true
	}
	if !ok {
		return nil, &shape.RefusedError{Path: w.part.root, Want: "a list from the program that finds the items", Got: "something else"}
	}
	items := make([][]byte, len(values))
	for i, value := range values {
		if items[i], err = mapping.Append(nil, mapping.Index(w.part.root, i), value, int(w.recipe.maxBytes)); err != nil {
			return nil, err
		}
	}
	return items, nil
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
		limit: max(w.spend.left.Load(), 1),
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
