package client

import (
	"net/http"
	"os"
	"slices"
	"testing"
)

// newClient has nothing but defaults.
func newClient(t *testing.T) *ClientWithResponses {
	t.Helper()
	c, err := NewClientWithResponses(os.Getenv("VITRINE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func p[T any](v T) *T { return &v }

func TestEveryDocumentIsReadIntoItsTypes(t *testing.T) {
	c := newClient(t)
	catalogue, err := c.GetCatalogueWithResponse(t.Context(), nil)
	if err != nil || catalogue.JSON200 == nil {
		t.Fatalf("%v %+v", err, catalogue)
	}
	artists := 0
	for _, a := range catalogue.JSON200.Artist {
		if a.Id == 0 || a.Name == "" {
			t.Errorf("%+v", a)
		}
		if a.GalleryArtists != nil {
			artists++
		}
	}
	cities := 0
	for _, g := range catalogue.JSON200.Gallery {
		for _, a := range g.Address {
			if a.City != nil && a.City.Name != "" {
				cities++
			}
		}
	}
	if artists == 0 || cities == 0 || len(catalogue.JSON200.Artwork) == 0 {
		t.Errorf("%d artists with a gallery, %d cities, %d artworks", artists, cities, len(catalogue.JSON200.Artwork))
	}
	rules, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{})
	if err != nil || rules.JSON200 == nil || len(*rules.JSON200) == 0 || (*rules.JSON200)[0].Title == "" {
		t.Errorf("%v %+v", err, rules)
	}
	banners, err := c.GetBannersWithResponse(t.Context(), &GetBannersParams{})
	if err != nil || banners.JSON200 == nil || len(*banners.JSON200) < 2 {
		t.Fatalf("%v %+v", err, banners)
	}
	if etag := banners.HTTPResponse.Header.Get("ETag"); etag == "" {
		t.Error("no ETag")
	}
}

func TestParametersReachTheServer(t *testing.T) {
	c := newClient(t)
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
	if !slices.IsSorted(up) || !slices.Equal(up, down) {
		t.Errorf("%v and %v", up, down)
	}
	plain, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{Format: p(Format("json"))})
	if err != nil {
		t.Fatal(err)
	}
	indented, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{Format: p(Format("api"))})
	if err != nil || indented.JSON200 == nil || len(indented.Body) <= len(plain.Body) {
		t.Errorf("%v: %d bytes, and %d indented", err, len(plain.Body), len(indented.Body))
	}
	again, err := c.GetRulesWithResponse(t.Context(), &GetRulesParams{Format: p(Format("json")), IfNoneMatch: p(plain.HTTPResponse.Header.Get("ETag"))})
	if err != nil || again.StatusCode() != http.StatusNotModified || again.JSON200 != nil {
		t.Errorf("%v: %d", err, again.StatusCode())
	}
}

func TestErrorsAreReadIntoTheirType(t *testing.T) {
	c := newClient(t)
	wrong, err := c.GetCatalogueWithResponse(t.Context(), &GetCatalogueParams{Format: p(Format("xml"))})
	if err != nil || wrong.StatusCode() != http.StatusNotFound || wrong.JSON404 == nil || wrong.JSON404.Detail == "" {
		t.Errorf("%v %+v", err, wrong)
	}
	stale, err := c.GetBannersWithResponse(t.Context(), &GetBannersParams{IfMatch: p(`"of-another-version"`)})
	if err != nil || stale.StatusCode() != http.StatusPreconditionFailed || stale.JSON412 == nil {
		t.Errorf("%v %+v", err, stale)
	}
	head, err := c.HeadCatalogueWithResponse(t.Context(), &HeadCatalogueParams{Format: p(Format("xml"))})
	if err != nil || head.StatusCode() != http.StatusNotFound {
		t.Errorf("HEAD of an error: %v %+v", err, head)
	}
}

func TestTheOtherMethodsWork(t *testing.T) {
	c := newClient(t)
	head, err := c.HeadBannersWithResponse(t.Context(), nil)
	if err != nil || head.StatusCode() != http.StatusOK || len(head.Body) > 0 || head.HTTPResponse.ContentLength <= 0 {
		t.Errorf("%v %+v", err, head)
	}
	description, err := c.DescribeBannersWithResponse(t.Context(), nil)
	if err != nil || description.JSON200 == nil || description.JSON200.Name == "" || description.JSON200.Ordering == nil || len(*description.JSON200.Ordering) == 0 {
		t.Errorf("%v %+v", err, description)
	}
}
