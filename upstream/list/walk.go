package list

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// tornError is a walk in which the list changed. After the last one the document is refused.
type tornError struct{ reason string }

func (e *tornError) Error() string { return e.reason }

func (*tornError) Is(target error) bool { return target == shape.ErrRefused }

// read walks until the list did not change while it was read.
func (w *walk) read(ctx context.Context, held exchange.Validators) (walked, error) {
	attempts := 0
	for n := 1; ; n++ {
		got, err := w.once(ctx, held)
		attempts += got.attempts
		got.attempts = attempts
		torn, ok := errors.AsType[*tornError](err)
		switch {
		case !ok:
			return got, err
		case n >= w.part.Paging.Walks:
			err = fmt.Errorf("%s: the list was not the same on all of its pages, in %d walks: %w", w.part.root, n, torn)
			return got, failed(ctx, got.last.Op, err)
		}
		held = exchange.Validators{}
		w.left.Add(int64(got.bytes))
		select {
		case <-time.After(w.recipe.pause): // in which the list settles
		case <-ctx.Done():
			return got, exchange.Late(got.last.Op, torn)
		}
	}
}

func (w *walk) refuse(last exchange.Answer, want, got string) error {
	return &exchange.Error{Op: last.Op, Kind: exchange.ErrAnswer, Err: &shape.RefusedError{Path: w.part.root, Want: want, Got: got}}
}

// once reads the list from its first page to its last.
func (w *walk) once(ctx context.Context, held exchange.Validators) (walked, error) {
	var got walked
	total := -1 // items, if the CMS reports them
	seen := make(map[uint64]bool)
	asked := make(map[string]bool)
	at := place{page: 1}
	var before [][]byte // the items of the page before
	for {
		want := w.request(at, held)
		key := want.Query + "\x00" + string(want.Body)
		if asked[key] {
			return got, w.refuse(got.last, "a page that was not read before", "a link to a page that was read already")
		}
		asked[key] = true
		one, err := w.cms.Do(ctx, want)
		got.attempts += one.Attempts
		if err != nil {
			end, err := w.past(one.Op, at, total >= 0, err)
			if end {
				break
			}
			if _, torn := errors.AsType[*tornError](err); !torn {
				got.last = one
			}
			return got, err
		}
		got.last, got.pages = one, at.page
		if one.NotModified {
			got.validators = one.Validators
			return got, nil
		}
		held = exchange.Validators{}
		got.bytes += len(one.Body)
		if w.recipe.draft == nil { // otherwise they are refused
			got.drafts += mapping.Drafts(one.Body)
		}
		if at.page == 1 && w.recipe.untouched(w.part, one.Body) {
			got.untouched, got.validators = one.Body, one.Validators
			return got, nil
		}
		page, err := w.open(ctx, one, w.part.Paging.MaxItems-len(got.items))
		if err != nil {
			return got, failed(ctx, one.Op, err)
		}
		if same := at.page > 1 && len(page.Items) > 0 && slices.EqualFunc(page.Items, before, bytes.Equal); same {
			return got, w.refuse(one, "pages that differ", "the same page again: does the CMS know the parameter "+strconv.Quote(w.part.Paging.Param)+"? It was asked for "+cmp.Or(w.cms.Query(want), "without a query"))
		}
		before = page.Items
		got.items = append(got.items, page.Items...)
		got.responses = append(got.responses, mapping.Response{Op: one.Op, Received: len(page.Items)})
		if w.part.Paging.Total == "-" {
			page.Total = -1
		}
		if page.Total >= 0 && total >= 0 && page.Total != total {
			return got, &tornError{fmt.Sprintf("a total of %d items on one page, %d on another", total, page.Total)}
		}
		if page.Total >= 0 {
			total = page.Total
		}
		next, more, err := w.next(at, want, page, len(got.items), total)
		if err != nil {
			return got, failed(ctx, one.Op, err)
		}
		if err := w.identify(ctx, at.page, len(got.items)-len(page.Items), page.Items, seen); err != nil {
			_, torn := errors.AsType[*tornError](err)
			switch {
			case !torn:
				return got, failed(ctx, one.Op, err)
			case at.page == 1:
				return got, w.refuse(one, "each item once", err.Error())
			}
			return got, err
		}
		if w.part.Paging.Style == source.PagingNone {
			if got.more = page.More; page.Next != "" {
				return got, w.refuse(one, "one page, since no paging.style says how the list goes on", "a next one")
			}
			if total > len(got.items) {
				return got, w.refuse(one, fmt.Sprintf("all of %d items, since no paging.style says how the list goes on", total), strconv.Itoa(len(got.items)))
			}
		}
		if !more {
			break
		}
		if at = next; at.page > w.part.Paging.MaxPages {
			return got, w.refuse(one, fmt.Sprintf("at most %d pages", w.part.Paging.MaxPages), "more")
		}
	}
	if got.pages == 1 && at.page == 1 { // and no answer past the end
		got.validators = got.last.Validators
	}
	if total >= 0 && total != len(got.items) {
		return got, &tornError{fmt.Sprintf("a total of %d items, but %d were sent", total, len(got.items))}
	}
	return got, nil
}

// identify finds an item that was sent twice; before is how many came on earlier pages. What has no
// identity, and comes twice in one answer, may mean it. Seen has a hash of each identity, since
// millions of items would take many times their size otherwise; two that differ have the same one
// with a probability of one in a billion for 100,000 items.
func (w *walk) identify(ctx context.Context, page, before int, items [][]byte, seen map[uint64]bool) error {
	watched, stop := w.watch(ctx)
	defer stop()
	for i, item := range items {
		identity, has, err := mapping.Identity(watched, w.part.id, w.part.root, before+i, item)
		if err != nil {
			return err
		}
		hash := maphash.Bytes(seed, identity)
		if seen[hash] && (has || page > 1) {
			return &tornError{fmt.Sprintf("item %s was sent twice", mapping.Clip(string(identity)))}
		}
		seen[hash] = true
	}
	return nil
}

var seed = maphash.MakeSeed()

// past interprets an error on a later page: the list has ended, or, if its total or link promised
// more, it became shorter. Any other error stays.
func (w *walk) past(op string, at place, counted bool, failed error) (end bool, err error) {
	status, ok := errors.AsType[*exchange.StatusError](failed)
	g := w.part.Paging
	uncounted := !counted && (g.Style == source.PagingPage || g.Style == source.PagingOffset)
	switch {
	case !ok || at.page == 1:
		return false, failed
	case uncounted && status.Code == g.PastEnd:
		return true, nil
	case status.Code != http.StatusBadRequest && status.Code != http.StatusNotFound:
		return false, failed
	case uncounted:
		return false, &exchange.Error{Op: op, Kind: exchange.ErrAnswer, Err: fmt.Errorf("%w (paging.past_end: %d, if the list ends so)", status, status.Code)}
	}
	return false, &tornError{fmt.Sprintf("page %d is gone (status %d)", at.page, status.Code)}
}

// watch begins to watch programs, which do not run while an answer is awaited.
func (w *walk) watch(ctx context.Context) (watched context.Context, stop func()) {
	return mapping.Watch(ctx, int(w.recipe.maxBytes-w.left.Load()))
}

// open finds the items of an answer, and what it says about the rest.
func (w *walk) open(ctx context.Context, one exchange.Answer, left int) (mapping.Page, error) {
	watched, stop := w.watch(ctx)
	defer stop()
	p, opening := w.part, w.part.opening
	opening.Body, opening.Header, opening.Left = one.Body, one.Header, left
	page, err := opening.Open(watched)
	if err == nil && opening.Next == nil && p.Paging.Style == source.PagingHeader {
		page.Next = mapping.NextLink(one.Header)
	}
	if said := one.Header.Get(p.Paging.TotalHeader); err == nil && p.Paging.TotalHeader != "" && said != "" {
		if page.Total, err = strconv.Atoi(said); err != nil || page.Total < 0 {
			return page, &shape.RefusedError{Path: p.root, Want: "a number of items in the header " + p.Paging.TotalHeader, Got: mapping.Clip(strconv.Quote(said))}
		}
	}
	return page, err
}
