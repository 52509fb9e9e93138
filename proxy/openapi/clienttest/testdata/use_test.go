package client

import (
	"net/http"
	"os"
	"slices"
	"testing"
)

func p[T any](v T) *T { return &v }

// Each document is read into its types, parameters reach the server, and errors have their type.
func TestAClientWithNothingButDefaultsWorks(t *testing.T) {
	c, err := NewClientWithResponses(os.Getenv("VITRINE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := c.GetCatalogueWithResponse(t.Context(), nil)
	if err != nil || catalogue.JSON200 == nil || len(catalogue.JSON200.Artwork) == 0 {
		t.Fatalf("%v %+v", err, catalogue)
	}
	for _, a := range catalogue.JSON200.Artist {
		if a.Id == 0 || a.Name == "" {
			t.Errorf("%+v", a)
		}
	}
	ids := func(ordering string) (ids []int64) {
		banners, err := c.GetBannersWithResponse(t.Context(), &GetBannersParams{Ordering: &ordering})
		if err != nil || banners.JSON200 == nil {
			t.Fatalf("%v %+v", err, banners)
		}
		for _, b := range *banners.JSON200 {
			ids = append(ids, b.Id)
		}
		return ids
	}
	up, down := ids("id"), ids("-id")
	slices.Reverse(down)
	if len(up) < 2 || !slices.IsSorted(up) || !slices.Equal(up, down) {
		t.Errorf("%v and %v", up, down)
	}
	rules, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{Format: p(Format("json"))})
	if err != nil || rules.JSON200 == nil || (*rules.JSON200)[0].Title == "" {
		t.Fatalf("%v %+v", err, rules)
	}
	again, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{Format: p(Format("json")), IfNoneMatch: p(rules.HTTPResponse.Header.Get("ETag"))})
	if err != nil || again.StatusCode() != http.StatusNotModified || again.JSON200 != nil {
		t.Errorf("%v: %d", err, again.StatusCode())
	}
	wrong, err := c.GetCatalogueWithResponse(t.Context(), &GetCatalogueParams{Format: p(Format("xml"))})
	if err != nil || wrong.StatusCode() != http.StatusNotFound || wrong.JSON404 == nil || wrong.JSON404.Detail == "" {
		t.Errorf("%v %+v", err, wrong)
	}
	stale, err := c.GetBannersWithResponse(t.Context(), &GetBannersParams{IfMatch: p(`"of-another-version"`)})
	if err != nil || stale.StatusCode() != http.StatusPreconditionFailed || stale.JSON412 == nil {
		t.Errorf("%v %+v", err, stale)
	}
	head, err := c.HeadBannersWithResponse(t.Context(), nil)
	if err != nil || head.StatusCode() != http.StatusOK || len(head.Body) > 0 || head.HTTPResponse.ContentLength <= 0 {
		t.Errorf("%v %+v", err, head)
	}
	description, err := c.DescribeBannersWithResponse(t.Context(), nil)
	if err != nil || description.JSON200 == nil || description.JSON200.Ordering == nil || len(*description.JSON200.Ordering) == 0 {
		t.Errorf("%v %+v", err, description)
	}
}
