package list

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// PagingError is a list that could not be read consistently to its end.
type PagingError struct {
	Path   string // of the list: catalogue.artist
	Walks  int    // how often it was read from its first page
	Reason string // what was wrong in the last walk
}

func (e *PagingError) Error() string {
	return fmt.Sprintf("%s: the list was not the same on all of its pages, in %d walks: %s", e.Path, e.Walks, e.Reason)
}

// Is makes a PagingError a refusal of the document.
func (e *PagingError) Is(target error) bool { return target == shape.ErrRefused }

// tornError is a walk in which the list changed.
type tornError struct{ reason string }

func (e *tornError) Error() string { return e.reason }

// read walks until the list did not change while it was read.
func (w *walk) read(ctx context.Context, held exchange.Validators) (walked, error) {
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
			if !w.part.Paging.Confirm || got.pages < 2 || before != nil && slices.Equal(before, got.identities) {
				return got, w.details(ctx, &got)
			}
			torn = &tornError{"the items of the last two walks differ"}
			before = got.identities
		}
		if n >= w.part.Paging.Walks {
			return got, w.wrong(got.last, &PagingError{Path: w.part.root, Walks: n, Reason: torn.reason})
		}
		held = exchange.Validators{}
		w.left.Add(int64(got.bytes))
		if !exchange.Sleep(ctx, w.recipe.pause) { // give the list time to settle
			return got, exchange.Late(got.last.Op, torn)
		}
	}
}

// wrong is the error of an inconsistent list.
func (w *walk) wrong(last exchange.Answer, err error) error {
	return &exchange.Error{Op: last.Op, Kind: exchange.ErrAnswer, Err: err}
}

func (w *walk) refuse(last exchange.Answer, want, got string) error {
	return w.wrong(last, &shape.RefusedError{Path: w.part.root, Want: want, Got: got})
}

// once reads the list from its first page to its last.
func (w *walk) once(ctx context.Context, held exchange.Validators) (walked, error) {
	var got walked
	total, last := -1, -1 // total items and pages, if the CMS reports them
	seen := make(map[string]bool)
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
			if end, torn := w.past(at, total >= 0 || last >= at.page, err); torn != nil {
				return got, torn
			} else if end {
				break
			}
			got.last = one
			return got, err
		}
		got.last, got.pages = one, at.page
		if one.NotModified {
			return got, nil
		}
		held = exchange.Validators{}
		got.bytes += len(one.Body)
		got.drafts += mapping.Drafts(one.Body)
		if at.page == 1 && w.recipe.untouched(w.part, one.Body) {
			got.untouched = one.Body
			return got, nil
		}
		page, err := w.open(ctx, one, w.part.Paging.MaxItems-len(got.items))
		if err != nil {
			return got, failed(ctx, one.Op, err)
		}
		if same := at.page > 1 && len(page.Items) > 0 && slices.EqualFunc(page.Items, before, bytes.Equal); same {
			return got, w.refuse(one, "pages that differ", "the same page again: does the CMS know the parameter "+strconv.Quote(w.part.Paging.Param)+"? It was asked for "+cmp.Or(one.Asked, "without a query"))
		}
		before = page.Items
		got.items = append(got.items, page.Items...)
		if w.part.Paging.Total == "-" {
			page.Total = -1
		}
		if page.Total >= 0 && total >= 0 && page.Total != total {
			return got, &tornError{fmt.Sprintf("a total of %d items on one page, %d on another", total, page.Total)}
		}
		if page.Total >= 0 {
			total = page.Total
		}
		last = page.Pages
		next, more, err := w.next(at, want, page, len(got.items), total)
		if err != nil {
			return got, w.wrong(one, err)
		}
		if err := w.identify(&got, page.IDs, seen); err != nil {
			if at.page == 1 {
				return got, w.refuse(one, "each item once", err.Error())
			}
			return got, err
		}
		if w.part.Paging.Style == PagingNone {
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
	if total >= 0 && total != len(got.items) {
		return got, &tornError{fmt.Sprintf("a total of %d items, but %d were sent", total, len(got.items))}
	}
	return got, nil
}

// identify finds an item that was sent twice. ids are those of the latest items, where a program
// has found them. What has no identity, and comes twice in one answer, may mean it.
func (w *walk) identify(got *walked, ids []string, seen map[string]bool) error {
	first := len(got.identities)
	for i := first; i < len(got.items); i++ {
		var identity string
		has := true
		if ids != nil {
			identity = ids[i-first]
		} else {
			identity, has = w.recipe.preset.Identity(got.items[i])
		}
		if seen[identity] && (has || first > 0) {
			return &tornError{fmt.Sprintf("item %s was sent twice", mapping.Clip(identity))}
		}
		seen[identity] = true
		got.identities = append(got.identities, identity)
	}
	return nil
}

// past interprets an error on a later page: the list has ended, or, if its total or link promised
// more, it became shorter.
func (w *walk) past(at place, counted bool, err error) (end bool, torn error) {
	status, ok := errors.AsType[*exchange.StatusError](err)
	if !ok || at.page == 1 || !slices.Contains(w.part.past, status.Code) {
		return false, nil
	}
	style := w.part.Paging.Style
	if !counted && (style == PagingPage || style == PagingOffset) {
		return true, nil
	}
	return false, &tornError{fmt.Sprintf("page %d is gone (status %d)", at.page, status.Code)}
}

// open finds the items of an answer, and what it says about the rest.
func (w *walk) open(ctx context.Context, one exchange.Answer, left int) (mapping.Page, error) {
	p := w.part
	page, err := w.work.Open(ctx, &mapping.Opening{
		Preset: w.recipe.preset.Name, Root: p.root, List: p.list, Body: one.Body, Header: one.Header,
		Items: p.items, Total: p.total, Next: p.next, ID: p.id, Left: left, MaxItems: p.Paging.MaxItems, MaxBytes: int(w.recipe.maxBytes),
	})
	if err == nil && p.next == nil && p.Paging.Style == PagingHeader {
		page.Next = mapping.NextLink(one.Header)
	}
	if name := p.Paging.TotalHeader; err == nil && name != "" {
		if page.Total, err = strconv.Atoi(one.Header.Get(name)); err != nil || page.Total < 0 {
			return page, &shape.RefusedError{Path: p.root, Want: "a number of items in the header " + name, Got: mapping.Clip(strconv.Quote(one.Header.Get(name)))}
		}
	}
	return page, err
}

// sideBySide is the number of concurrent requests for details.
const sideBySide = 4

// details replaces each item by the response to its detail request, if the part has one.
func (w *walk) details(ctx context.Context, got *walked) error {
	d := w.part.Detail
	if d == nil || got.last.NotModified {
		return nil
	}
	if len(got.items) > d.Most {
		return w.refuse(got.last, fmt.Sprintf("at most %d items to request one by one (detail.most)", d.Most), "more")
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	var mu sync.Mutex // guards the counts of got
	for i := range got.items {
		group.Go(func() (err error) {
			defer exchange.Recover("read "+w.part.root, &err)
			one, err := w.detail(working, got, i)
			drafts := mapping.Drafts(one.Body)
			mu.Lock()
			defer mu.Unlock()
			got.attempts += one.Attempts
			got.bytes += len(one.Body)
			got.drafts += drafts
			got.pages += min(one.Attempts, 1)
			return err
		})
	}
	return group.Wait()
}

// detail requests one item.
func (w *walk) detail(ctx context.Context, got *walked, i int) (exchange.Answer, error) {
	id := got.identities[i]
	var text string
	if json.Unmarshal([]byte(id), &text) == nil { // otherwise it is a number
		id = text
	}
	if len(id) > maxNext || id == "." || id == ".." {
		return exchange.Answer{}, w.refuse(got.last, "an id that can be part of a URL", mapping.Clip(id))
	}
	path := strings.ReplaceAll(w.part.Detail.Path, "{id}", url.PathEscape(id))
	one, err := w.cms.Do(ctx, exchange.Request{
		Resource: string(w.recipe.resource), Part: w.part.Name, Page: 1, Detail: id, Path: path, Query: w.part.Detail.Query.Encode(),
		Headers: w.part.Headers, Origin: w.part.origin, Types: w.part.AcceptTypes,
		Limit: exchange.Limit{Left: w.left, Most: w.recipe.maxBytes},
	})
	if err != nil {
		return one, err
	}
	page, err := w.work.Open(ctx, &mapping.Opening{
		Preset: w.recipe.preset.Name, Root: fmt.Sprintf("%s[%d]", w.part.root, i), Body: one.Body, Header: one.Header,
		Items: w.part.detail, Left: 1, MaxItems: 1, MaxBytes: int(w.recipe.maxBytes),
	})
	if err != nil {
		return one, failed(ctx, one.Op, err)
	}
	got.items[i] = page.Items[0]
	return one, nil
}
