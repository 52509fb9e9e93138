package list

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// sideBySide is the number of concurrent requests for details.
const sideBySide = 4

// details replaces each item by the response to its detail request, if the part has one.
func (w *walk) details(ctx context.Context, got *walked) error {
	d := w.part.Detail
	if d == nil || got.last.NotModified {
		return nil
	}
	if len(got.items) > d.Most {
		return w.wrong(got.last, &shape.RefusedError{
			Path: w.part.root, Want: fmt.Sprintf("at most %d items to request one by one (detail.most)", d.Most), Got: "more"})
	}
	answers := make([]exchange.Answer, len(got.items))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for i := range got.items {
		group.Go(func() (err error) {
			defer exchange.Recover("read "+w.part.root, &err)
			answers[i], err = w.detail(working, got, i)
			return err
		})
	}
	err := group.Wait()
	for _, one := range answers {
		got.attempts += one.Attempts
		got.bytes += len(one.Body)
		got.drafts += mapping.Drafts(one.Body)
		got.pages += min(one.Attempts, 1)
	}
	return err
}

// detail requests one item.
func (w *walk) detail(ctx context.Context, got *walked, i int) (exchange.Answer, error) {
	id := got.identities[i]
	var text string
	if json.Unmarshal([]byte(id), &text) == nil { // otherwise it is a number
		id = text
	}
	path := strings.ReplaceAll(w.part.Detail.Path, "{id}", url.PathEscape(id))
	one, err := w.cms.Do(ctx, exchange.Request{
		Resource: string(w.recipe.resource), Part: w.part.Name, Page: 1, Detail: id, Path: path, Query: w.part.Detail.Query.Encode(),
		Headers: w.part.Headers, Origin: w.part.origin, Types: w.part.AcceptTypes,
		Limit: exchange.Limit{Left: max(w.spend.left.Load(), 1), Most: w.recipe.maxBytes},
	})
	if err != nil {
		return one, err
	}
	if err := w.spend.take(len(one.Body), w.recipe.maxBytes); err != nil {
		return one, w.wrong(one, err)
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
