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
	"strings"
	"sync/atomic"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/guard"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// walk reads one part to its end.
type walk struct {
	recipe *Recipe
	part   *part
	cms    *exchange.Client
	left   *atomic.Int64 // bytes, for all responses of the document
	want   Request

	lenient bool // what comes of a list that changes is taken
	walked
	total  int // items, if the CMS reports them and is believed; otherwise -1
	seen   map[uint64]bool
	asked  map[string]bool
	before [][]byte // the items of the page before
}

// walked is the result of a walk.
type walked struct {
	items      [][]byte
	received   int    // items, those left out included
	op         string // how the first page was obtained
	untouched  []byte // the document itself, if it needs no mapping
	last       exchange.Answer
	validators exchange.Validators // of the one answer that is the whole list
	pages      int
	attempts   int
	bytes      int
	drafts     int // items that the CMS marks as unpublished
	garbled    shape.Repair
	missing    shape.Repair  // relations that lead nowhere
	age        time.Duration // of the oldest response
	more       string        // what shows that the list goes on, where nothing says how
	torn       string        // how the list changed while it was read
	miscounted string        // a total that is not believed
}

// tornError is a walk in which the list changed. After the last one the document is refused.
type tornError struct{ reason string }

func (e *tornError) Error() string { return e.reason }

func (*tornError) Is(target error) bool { return target == shape.ErrRefused }

// changed is a tornError, or nil if what comes is taken.
func (w *walk) changed(format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	if !w.lenient {
		return &tornError{reason}
	}
	w.torn = cmp.Or(w.torn, reason)
	return nil
}

// read walks until the list did not change while it was read. Without a cached copy the last walk
// takes what comes, each item once.
func (w *walk) read(ctx context.Context) error {
	attempts, held := 0, w.want.Held
	for n := 1; ; n++ {
		w.lenient = !w.want.Cached && n >= w.part.Paging.Walks
		err := w.once(ctx, held)
		attempts += w.attempts
		w.attempts = attempts
		torn, ok := errors.AsType[*tornError](err)
		switch {
		case !ok:
			return err
		case n >= w.part.Paging.Walks:
			err = fmt.Errorf("%s: the list was not the same on all of its pages, in %d walks: %w", w.part.root, n, torn)
			return failed(ctx, w.last.Op, err)
		}
		held = exchange.Validators{}
		w.left.Add(int64(w.bytes))
		select {
		case <-time.After(50 * time.Millisecond): // in which the list settles
		case <-ctx.Done():
			return exchange.Late(w.last.Op, torn)
		}
	}
}

// warnings are what is odd about a list that was read.
func (w *walk) warnings() (all guard.Findings) {
	for _, odd := range []guard.Finding{
		{Kind: guard.Drafts, Before: w.drafts},
		{Kind: guard.Unpaged, Items: len(w.items), Shown: w.more},
		{Kind: guard.Unsteady, Items: len(w.items), Shown: w.torn},
		{Kind: guard.Miscounted, Items: len(w.items), Shown: w.miscounted},
	} {
		if odd.Before > 0 || odd.Shown != "" {
			odd.List, odd.Verdict = w.part.root, guard.Served
			all = append(all, odd)
		}
	}
	return all
}

func (w *walk) refuse(want, got string) error {
	return &exchange.Error{Op: w.last.Op, Kind: exchange.ErrAnswer, Err: &shape.RefusedError{Path: w.part.root, Want: want, Got: got}}
}

// once reads the list from its first page to its last.
func (w *walk) once(ctx context.Context, held exchange.Validators) error {
	w.walked, w.total, w.seen, w.asked, w.before = walked{}, -1, make(map[uint64]bool), make(map[string]bool), nil
	for at, more := (cursor{page: 1}), true; more; held = (exchange.Validators{}) {
		want := w.request(at, held)
		key := want.Query + "\x00" + string(want.Body)
		if w.asked[key] {
			return w.refuse("a page that was not read before", "a link to a page that was read already")
		}
		w.asked[key] = true
		one, err := w.cms.Do(ctx, want)
		w.attempts += one.Attempts
		if err != nil {
			end, err := w.past(one.Op, at, err)
			if end {
				break
			}
			if _, torn := errors.AsType[*tornError](err); !torn {
				w.last = one
			}
			return err
		}
		w.last, w.op, w.pages, w.age = one, cmp.Or(w.op, one.Op), at.page, max(w.age, one.Age)
		if one.NotModified {
			w.validators = one.Validators
			return nil
		}
		w.bytes += len(one.Body)
		var garbled shape.Repair
		one.Body, garbled = mapping.Readable(w.part.root, one.Body)
		w.garbled = w.garbled.Plus(garbled)
		if w.recipe.draft == nil { // otherwise they are refused
			w.drafts += mapping.Drafts(one.Body)
		}
		if at.page == 1 && w.recipe.untouched(w.part, one.Body) {
			w.untouched, w.validators = one.Body, one.Validators
			return nil
		}
		if at, more, err = w.take(ctx, at, want, one); err != nil {
			return err
		}
		if more && at.page > w.part.Paging.MaxPages {
			return w.refuse(fmt.Sprintf("at most %d pages", w.part.Paging.MaxPages), "more")
		}
	}
	if w.pages == 1 && len(w.asked) == 1 { // and no answer past the end
		w.validators = w.last.Validators
	}
	if w.total > w.received {
		return w.changed("a total of %d items, but %d were sent", w.total, w.received)
	}
	return nil
}

// take takes the items of a page, and returns where the list goes on.
func (w *walk) take(ctx context.Context, at cursor, want exchange.Request, one exchange.Answer) (next cursor, more bool, err error) {
	g := w.part.Paging
	page, err := w.open(ctx, one)
	if err != nil {
		return at, false, failed(ctx, one.Op, err)
	}
	switch same := at.page > 1 && slices.EqualFunc(page.Items, w.before, bytes.Equal); {
	case same && len(page.Items) == 0 && page.Next != "":
		return at, false, w.refuse("no next page (paging.next: null) at the list's end", "two empty pages that have one")
	case same && at.probe:
		return at, false, nil
	case same && len(page.Items) > 0:
		return at, false, w.refuse("pages that differ", "the same page again: does the CMS know the parameter "+strconv.Quote(g.Param)+"?")
	}
	w.before, w.missing = page.Items, w.missing.Plus(page.Missing)
	items, err := w.distinct(ctx, page.Items)
	if err != nil {
		return at, false, failed(ctx, one.Op, err)
	}
	w.items, w.received = append(w.items, items...), w.received+len(page.Items)
	if err := w.count(page.Total); err != nil {
		return at, false, err
	}
	if next, more, err = w.next(at, want, page); err != nil {
		return next, false, failed(ctx, one.Op, err)
	}
	switch single := g.Style == source.PagingNone; {
	case single && page.Next != "":
		return next, false, w.refuse("one page, since no paging.style says how the list goes on", "a next one")
	case single && w.total > w.received:
		return next, false, w.refuse(fmt.Sprintf("all of %d items, since no paging.style says how the list goes on", w.total), strconv.Itoa(w.received))
	case !more:
		w.more = page.More
	}
	return next, more, nil
}

// count notes the total of a page, if it has one. One below what was sent is not believed.
func (w *walk) count(total int) error {
	switch {
	case total < 0 || w.part.Paging.Total == "-" || w.miscounted != "":
		return nil
	case w.total >= 0 && w.total != total:
		if err := w.changed("a total of %d items on one page, %d on another", w.total, total); err != nil {
			return err
		}
	}
	if w.total = total; total < w.received {
		w.total, w.miscounted = -1, strconv.Itoa(total)
	}
	return nil
}

// distinct returns the items of a page that did not come on an earlier one: such a list has changed.
// Copies in one answer stay, since the CMS may mean them. Seen has a hash of each identity, since
// millions of items would take many times their size otherwise; two that differ have the same one
// with a probability of one in a billion for 100,000 items.
func (w *walk) distinct(ctx context.Context, items [][]byte) (kept [][]byte, err error) {
	watched, stop := w.watch(ctx)
	defer stop()
	hashes := make([]uint64, 0, len(items))
	for i, item := range items {
		identity, err := mapping.Identity(watched, w.part.id, w.part.root, w.received+i, item)
		if err != nil {
			return nil, err
		}
		hash := maphash.Bytes(seed, identity)
		if w.seen[hash] {
			if err := w.changed("item %s was sent twice", mapping.Clip(string(identity))); err != nil {
				return nil, err
			}
			continue
		}
		hashes, kept = append(hashes, hash), append(kept, item)
	}
	for _, hash := range hashes {
		w.seen[hash] = true
	}
	return kept, nil
}

var seed = maphash.MakeSeed()

// past interprets an error on a later page: the list has ended, or, if its total or link promised
// more, it became shorter. Any other error stays. A 400 after a full page is the end only if it
// speaks of the page.
func (w *walk) past(op string, at cursor, failed error) (end bool, err error) {
	status, ok := errors.AsType[*exchange.StatusError](failed)
	if !ok || at.page == 1 {
		return false, failed
	}
	g := w.part.Paging
	gone := status.Code == http.StatusBadRequest || status.Code == http.StatusNotFound
	uncounted := w.total < 0 && (g.Style == source.PagingPage || g.Style == source.PagingOffset)
	full := g.SizeParam != "" && len(w.before) >= g.Size
	spoken := status.Code != http.StatusBadRequest || !full || strings.Contains(strings.ToLower(status.Name+status.Said), "page")
	switch {
	case at.probe && (gone || status.Code == g.PastEnd), uncounted && status.Code == g.PastEnd && spoken:
		return true, nil
	case !gone || uncounted && status.Code == g.PastEnd:
		return false, failed
	case uncounted:
		return false, &exchange.Error{Op: op, Kind: exchange.ErrAnswer, Err: fmt.Errorf("%w (paging.past_end: %d, if the list ends so)", status, status.Code)}
	}
	err = w.changed("page %d is gone (status %d)", at.page, status.Code)
	return err == nil, err
}

// watch begins to watch programs, which do not run while an answer is awaited.
func (w *walk) watch(ctx context.Context) (watched context.Context, stop func()) {
	return mapping.Watch(ctx, int(w.recipe.maxBytes-w.left.Load()))
}

// open finds the items of an answer, and what it says about the rest.
func (w *walk) open(ctx context.Context, one exchange.Answer) (mapping.Page, error) {
	watched, stop := w.watch(ctx)
	defer stop()
	p, opening := w.part, w.part.opening
	opening.Body, opening.Header, opening.Left = one.Body, one.Header, p.Paging.MaxItems-w.received
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

// failed is an error of processing complete responses.
func failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shape.ErrRefused) {
		return exchange.Late(op, err)
	}
	return &exchange.Error{Op: op, Kind: exchange.ErrAnswer, Err: err}
}
