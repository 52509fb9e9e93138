package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			return got, w.wrong(got.last, &PagingError{Path: w.part.root, Walks: n, Reason: torn.reason})
		}
		held = Validators{}
		w.spend.give(got.bytes)
		if err := w.pause(ctx); err != nil {
			return got, w.recipe.failed(ctx, got.last, err)
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

// wrong is the error of a list that is not as it should be.
func (w *walk) wrong(last answer, err error) error {
	return &FetchError{Resource: w.recipe.resource, Op: last.op, Kind: ErrAnswer, Err: err}
}

// once reads the list from its first page to its last.
func (w *walk) once(ctx context.Context, held Validators) (walked, error) {
	var got walked
	total, last := -1, -1 // items and pages in all, as far as the CMS says
	seen := make(map[string]bool)
	asked := make(map[string]bool)
	at := place{page: 1}
	for {
		want := w.request(at)
		if asked[want.query] {
			return got, w.wrong(got.last, &shape.RefusedError{Path: w.part.root, Want: "a page that was not read yet", Got: "a link in a circle"})
		}
		asked[want.query] = true
		one, err := w.page(ctx, want, held)
		got.attempts += one.attempts
		if err != nil {
			if end, torn := w.past(at, total >= 0 || last >= at.page, err); torn != nil {
				return got, torn
			} else if end {
				break
			}
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
			return got, w.wrong(one, err)
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
			return got, w.wrong(one, tooManyItems(w.part))
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
		last = page.Pages
		next, more, err := w.next(at, want, page, len(got.items), total)
		if err != nil {
			return got, w.wrong(one, err)
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
			return got, w.wrong(one, &shape.RefusedError{
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
// end, or, where it was to go on by its own count or link, that it became shorter.
func (w *walk) past(at place, counted bool, err error) (end bool, torn error) {
	status, ok := errors.AsType[*StatusError](err)
	if !ok || at.page == 1 || !slices.Contains(w.part.past, status.Code) {
		return false, nil
	}
	style := w.part.paging.Style
	if !counted && (style == PagingPage || style == PagingOffset) {
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
