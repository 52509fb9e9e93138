package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"vitrine/config/source"
	"vitrine/upstream/list"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"

	"vitrine/cmd/testkit"
)

// of makes a client of a preset with the given catalogue.
func of(t *testing.T, cms *upstreamtest.CMS, preset string, catalogue source.Resource) *Client {
	t.Helper()
	return newClient(t, cms.URL, func(o *options) {
		o.Preset, o.Resources = preset, map[shape.Resource]source.Resource{shape.Catalogue: catalogue}
	})
}

// threeLists is a catalogue of three parts.
var threeLists = source.Resource{Parts: []source.Part{
	{Name: "artist", Path: "artists"}, {Name: "artwork", Path: "artworks", Headers: map[string]string{"X-Part": "artwork"}},
	{Name: "gallery", Path: "galleries?all=1", Query: url.Values{"lang": {"nl"}}},
}}

// threePaths is a client of a preset whose catalogue has its lists at /artists, /artworks and
// /galleries, with these bodies.
func threePaths(t *testing.T, preset string, most int, artists, artworks, galleries string, items ...int) *Client {
	t.Helper()
	cms := upstreamtest.New(t)
	items = append(items, 0, 0, 0)
	for i, body := range []string{artists, artworks, galleries} {
		cms.HandlePath([]string{"/artists", "/artworks", "/galleries"}[i], upstreamtest.JSON(body, "X-WP-Total", strconv.Itoa(items[i])))
	}
	return newClient(t, cms.URL, func(o *options) {
		o.Preset, o.MaxBytes = preset, int64(most)
		o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Parts: []source.Part{
			{Name: "artist", Path: "artists"}, {Name: "artwork", Path: "artworks"}, {Name: "gallery", Path: "galleries"},
		}}}
	})
}

func TestPartsAreFetchedSideBySide(t *testing.T) {
	cms := upstreamtest.New(t)
	var together sync.WaitGroup // nobody is answered before all have asked
	together.Add(3)
	for _, path := range []string{"/artists", "/artworks", "/galleries"} {
		cms.HandlePath(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			together.Done()
			together.Wait()
			upstreamtest.JSON(`[{"id":1}]`).ServeHTTP(w, req)
		}))
	}
	got := mustFetch(t, of(t, cms, "drf", threeLists), shape.Catalogue)
	if got.Document.Items != 3 || got.Attempts != 3 || got.Validators != (Validators{}) {
		t.Errorf("got %d items in %d attempts with validators %+v", got.Document.Items, got.Attempts, got.Validators)
	}
	for _, req := range cms.Requests() {
		if (req.Header.Get("X-Part") != "") != (req.Path == "/artworks") {
			t.Errorf("%s got X-Part %q", req.Path, req.Header.Get("X-Part"))
		}
		if req.Path == "/galleries" && req.Query != "all=1&lang=nl" {
			t.Errorf("asked for galleries?%s", req.Query)
		}
	}
}

func TestDocumentIsWholeOrNotAtAll(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/artists", upstreamtest.JSON(`[{"id":1}]`))
	cms.HandlePath("/artworks", upstreamtest.Status(http.StatusForbidden))
	cms.HandlePath("/galleries", upstreamtest.JSON(`[{"id":1}]`))
	_, err := of(t, cms, "drf", threeLists).Fetch(t.Context(), shape.Catalogue, Held{})
	wantError(t, err, ErrAnswer, "GET "+cms.URL+"/artworks: status 403")
}

func TestMissingRelationIsAFaultWhereTheCMSWouldHaveSentNull(t *testing.T) {
	for _, c := range []struct{ preset, name, path, recording, want string }{
		{"strapi5", "artist", "/api/artists", "strapi5/artists-page4-past-end", ""}, // none at all is none missing
		{"strapi5", "gallery", "/api/galleries", "strapi5/galleries-list", "catalogue.gallery[0].address: want a list, as the CMS sends it even if empty, got nothing: the relation is not expanded, or not permitted"},
		{"strapi5", "gallery", "/api/galleries", "strapi5/galleries-populate-star", "catalogue.gallery[0].address[0].city: want an object or null, got nothing: the relation is not expanded, or not permitted"},
		{"strapi5", "gallery", "/api/galleries", "strapi5/noperm-country-galleries-populate-deep", "catalogue.gallery[0].address[0].city.country: want an object or null, got nothing: the relation is not expanded, or not permitted"},
		{"strapi4", "gallery", "/api/galleries", "strapi4/noperm-country-galleries-populate-deep", "catalogue.gallery[0].address[0].city.country: want an object or null, got nothing: the relation is not expanded, or not permitted"},
		{"directus", "gallery", "/items/galleries", "directus/noperm-countries-galleries-fields3", "catalogue.gallery[0].address[0].country: want an object or null, got nothing: the relation is not expanded, or not permitted"},
		{"directus", "gallery", "/items/galleries", "directus/noperm-countries-explicit", "catalogue.gallery[0].address[0]: want an object, got an id: the relation is not expanded, or not permitted"},
		{"directus", "gallery", "/items/galleries", "directus/galleries-list", "catalogue.gallery[0].address[0]: want an object, got an id: the relation is not expanded, or not permitted"},
	} {
		t.Run(c.recording, func(t *testing.T) {
			cms := upstreamtest.New(t)
			serveOnce(t, cms, c.path, c.recording)
			client := of(t, cms, c.preset, source.Resource{
				Parts: []source.Part{{Name: c.name, Paging: source.Paging{Total: "-", Style: source.PagingNone}}}, Map: "{artist: [], artwork: [], gallery: []} + .",
			})
			_, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
			if c.want == "" {
				testkit.Check(t, err)
				return
			}
			wantError(t, err, ErrAnswer, c.want)
			wantRefused(t, err)
		})
	}
}

// serveOnce answers with a recording and, to requests for more, with nothing.
func serveOnce(t *testing.T, cms *upstreamtest.CMS, path, recording string) {
	t.Helper()
	cms.HandlePath(path, upstreamtest.Recorded(t, upstreamtest.Recording(t, recording)))
}

func TestUnexpandedJunctionsAreRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/items/rules", upstreamtest.Recorded(t, upstreamtest.Recording(t, "directus/rules-list")))
	client := newClient(t, cms.URL, func(o *options) {
		o.Preset = "directus"
		o.Resources = map[shape.Resource]source.Resource{shape.Rules: {Parts: []source.Part{{Paging: source.Paging{Style: source.PagingNone}}}}}
	})
	_, err := client.Fetch(t.Context(), shape.Rules, Held{})
	wantError(t, err, ErrAnswer, "rules[0].exlude_pages[0]: want an object, got an id: the relation is not expanded, or not permitted")
}

func TestDraftsAreRefusedUnlessAProgramLeavesThemOut(t *testing.T) {
	for _, c := range []struct{ preset, path, recording, want, leave string }{
		{"strapi5", "/api/artists", "strapi5/artists-status-draft", "catalogue.artist[0].publishedAt", "select(.publishedAt)"},
		{"strapi4", "/api/artists", "strapi4/artists-preview", "catalogue.artist[5].attributes.publishedAt", "select(.publishedAt)"},
		{"wordpress", "/wp-json/wp/v2/artists", "wordpress/token-context-edit", "catalogue.artist[4].status", `select(.status == "publish")`},
	} {
		t.Run(c.recording, func(t *testing.T) {
			for _, program := range []string{"", c.leave} {
				cms := upstreamtest.New(t)
				serveOnce(t, cms, c.path, c.recording)
				client := of(t, cms, c.preset, source.Resource{
					Parts: []source.Part{{Name: "artist", Map: strings.TrimPrefix(program+" | .gallery_artists = null", " | ")}}, Map: "{artwork: [], gallery: []} + .",
				})
				got, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
				if program == "" {
					wantError(t, err, ErrAnswer, c.want+": want a published item (a program can leave drafts out), got a draft")
					continue
				}
				if err != nil || strings.Contains(string(got.Document.Body), "Щёголева") {
					t.Errorf("%d artists, %v", got.Document.Items, err)
				}
			}
		})
	}
}

func TestMistakesInPartsAreNamedByTheirKey(t *testing.T) {
	for _, c := range []struct {
		name     string
		preset   string
		resource shape.Resource
		options  source.Resource
		want     string
	}{
		{"no parts", "custom", shape.Banners, source.Resource{}, "banners.parts: want at least one, since the preset has none for it"},
		{"no path", "custom", shape.Banners, source.Resource{Parts: []source.Part{{}}}, "banners.parts[0].path: want one, since the preset has none for this"},
		{"path elsewhere", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Path: "http://other"}}}, "banners.parts[0].path: want a path relative to the upstream URL, got a URL"},
		{"name of no list", "drf", shape.Catalogue, source.Resource{Parts: []source.Part{{Name: "artists", Path: "a"}}}, `catalogue.parts[0].name: want one of artist, artwork, gallery, got "artists"`},
		{"name twice", "drf", shape.Catalogue, source.Resource{Parts: []source.Part{{Name: "artist", Path: "a"}, {Name: "artist", Path: "b"}}}, `catalogue.parts[1].name: want distinct names, got "artist" again`},
		{"least items of no list", "strapi5", shape.Catalogue, source.Resource{Parts: []source.Part{{Name: "x", Path: "a", MinItems: 1}}, Map: "."}, `catalogue.parts[0].min_items: want it on a part that is one of artist, artwork, gallery, or has no name, got the part "x"`},
		{"several without names", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Path: "a"}, {Name: "b", Path: "b"}}}, "banners.parts[0].name: want one for each of several parts, got none"},
		{"reserved header", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Headers: map[string]string{"Host": "x"}}}}, `banners.parts[0].headers.Host: want a header that the client does not set itself`},
		{"header twice", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Headers: map[string]string{"X-A": "1", "x-a": "2"}}}}, `banners.parts[0].headers.x-a: want each header once, whatever the case of its letters`},
		{"style", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Paging: source.Paging{Style: "scroll"}}}}, `banners.parts[0].paging.style: want one of cursor, header, link, none, offset, page, got "scroll"`},
		{"page without param", "custom", shape.Banners, source.Resource{Parts: []source.Part{{Path: "a", Paging: source.Paging{Style: source.PagingPage}}}}, "banners.parts[0].paging.param: want the name of the parameter for the page, got none"},
		{"cursor without next", "custom", shape.Banners, source.Resource{Parts: []source.Part{{Path: "a", Paging: source.Paging{Style: source.PagingCursor, Param: "c"}}}}, "banners.parts[0].paging.next: want a program that finds the cursor, got none"},
		{"program", "drf", shape.Banners, source.Resource{Parts: []source.Part{{Map: ".a\n| .b ||"}}}, "banners.parts[0].map: line 2 (| .b ||): unexpected token \"|\""},
		{"function", "drf", shape.Banners, source.Resource{Map: "map(.a)\n| map(\n  frobnicate\n)"}, "banners.map: line 3 (frobnicate): function not defined: frobnicate/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options{Options: Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{}}, Preset: c.preset}
			if c.preset == "custom" {
				for _, r := range shape.Resources() {
					o.Resources[r] = source.Resource{Parts: []source.Part{{Path: "x"}}}
				}
			}
			o.Resources[c.resource] = c.options
			_, err := New(o.complete(t))
			if err == nil || err.Error() != "upstream.resources."+c.want {
				t.Errorf("got  %v\nwant upstream.resources.%s", err, c.want)
			}
			_, mistake := errors.AsType[*list.Error](err)
			if _, program := errors.AsType[*mapping.ProgramError](err); mistake == program {
				t.Errorf("a %T", err)
			}
		})
	}
}

func TestCustomPagingIsSaidByPrograms(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/v2/list", func(query func(string) string) string {
		switch query("after") {
		case "":
			return `{"result":{"rows":[` + bannerList(1, 2) + `],"count":3},"cursor":"abc"}`
		case "abc":
			return `{"result":{"rows":[` + bannerList(3, 1) + `],"count":3},"cursor":null}`
		default:
			return "404"
		}
	})
	client := paged(t, cms, "custom", source.Part{
		Path: "v2/list", Items: ".result.rows",
		Paging: source.Paging{Style: source.PagingCursor, Param: "after", SizeParam: "n", Size: 2, Total: ".result.count", Next: ".cursor"},
	})
	wantIDs(t, client, "[1 2 3]")
	if q := cms.Requests()[0].Query; q != "n=2" {
		t.Errorf("asked for %q", q)
	}
	cms.HandlePath("/v3/list", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("page") == "2" {
			upstreamtest.JSON("["+bannerList(3, 1)+"]").ServeHTTP(w, req)
			return
		}
		upstreamtest.JSON("["+bannerList(1, 2)+"]", "Link", `</v3/list?page=1>; rel="prev", </v3/list?page=2>; rel="next"`).ServeHTTP(w, req)
	}))
	wantIDs(t, paged(t, cms, "custom", source.Part{Path: "v3/list", Paging: source.Paging{Style: source.PagingHeader}}), "[1 2 3]")
	first := 0
	pages(cms, "/v4/list", func(query func(string) string) string {
		return map[string]string{"0": "[" + bannerList(1, 2) + "]", "1": "[" + bannerList(3, 2) + "]", "2": "404"}[query("p")]
	})
	wantIDs(t, paged(t, cms, "custom", source.Part{Path: "v4/list", Paging: source.Paging{Style: source.PagingPage, Param: "p", First: &first, PastEnd: 404}}), "[1 2 3 4]")
}

// TestLeastItemsHoldForTheListsOfADocumentInOnePart is the default preset's catalogue.
func TestLeastItemsHoldForTheListsOfADocumentInOnePart(t *testing.T) {
	cms := upstreamtest.New(t)
	for least, want := range map[int]string{
		4: "", 5: "catalogue.gallery: want at least 5 items (min_items), got 4",
	} {
		client := newClient(t, cms.URL, func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Parts: []source.Part{{MinItems: least}}}}
		})
		if _, err := client.Fetch(t.Context(), shape.Catalogue, Held{}); want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%d: %v", least, err)
		}
	}
}

// TestAMistakeOfAProgramNamesIt has values that are none, several, too large, or of the wrong kind.
func TestAMistakeOfAProgramNamesIt(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON(`{"rows":[{"id":1}]}`))
	for _, c := range []struct {
		part source.Part
		of   string // the map of the whole
		want string
	}{
		{source.Part{Items: "empty"}, "", "banners: upstream.resources.banners.parts[0].items: want one value, got none"},
		{source.Part{Items: ".rows, .rows"}, "", "banners: upstream.resources.banners.parts[0].items: want one value, got several"},
		{source.Part{Items: ".rows[0]"}, "", "banners: upstream.resources.banners.parts[0].items: want a list, got object"},
		{source.Part{Items: ".rows", ID: ".uuid"}, "", "banners[0]: upstream.resources.banners.parts[0].id: want the item's identity, got null"},
		{source.Part{Items: ".rows", Map: `.title_en = "x" * 2000000`}, "", "banners[0].title_en: upstream.resources.banners.parts[0].map: want at most 1000000 bytes, got more"},
		{source.Part{Items: ".rows"}, "empty", "banners: upstream.resources.banners.map: want one value, got none"},
		{source.Part{Items: ".rows"}, `.[0].title_en = "x" * 2000000`, "banners[0].title_en: upstream.resources.banners.map: want at most 1000000 bytes, got more"},
	} {
		c.part.Path = "rows"
		client := newClient(t, cms.URL, func(o *options) {
			o.Preset, o.MaxBytes, o.Resources = "custom", 1_000_000, bannersAlone(c.part)
			banners := o.Resources[shape.Banners]
			banners.Map = c.of
			o.Resources[shape.Banners] = banners
		})
		if _, err := client.Fetch(t.Context(), shape.Banners, Held{}); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestAMapThatForgetsAListIsRejected has the document that a program makes of parts, and of one object.
// What the CMS itself leaves out is empty.
func TestAMapThatForgetsAListIsRejected(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/whole", upstreamtest.JSON(`{"artist":[],"artwork":[]}`))
	cms.HandlePath("/rows", upstreamtest.JSON(`[]`))
	const says = ": want each of artist, artwork, gallery in the document, got no gallery"
	for _, c := range []struct {
		from source.Resource
		want string
	}{
		{source.Resource{Map: "{artist, artwork: null}", Parts: []source.Part{{Name: "artist", Path: "rows"}}}, "catalogue.map" + says},
		{source.Resource{Map: "{artist, artwork: null, gallery: []}", Parts: []source.Part{{Name: "artist", Path: "rows"}}}, ""},
		{source.Resource{Map: "del(.gallery)", Parts: []source.Part{{Path: "whole"}}}, "catalogue.map" + says},
		{source.Resource{Parts: []source.Part{{Path: "whole", Map: "."}}}, "catalogue.parts[0].map" + says},
		{source.Resource{Parts: []source.Part{{Path: "whole"}}}, ""},
	} {
		_, err := of(t, cms, "drf", c.from).Fetch(t.Context(), shape.Catalogue, Held{})
		if c.want == "" {
			testkit.Check(t, err)
			continue
		}
		wantError(t, err, ErrAnswer, "catalogue: upstream.resources."+c.want)
	}
}

// TestTheMapOfTheWholeIsExplained has WordPress, whose catalogue is put together by one.
func TestTheMapOfTheWholeIsExplained(t *testing.T) {
	client := threePaths(t, "wordpress", 0, `[{"id":1,"title":{"rendered":"A"},"meta":{"gallery_artists":12}}]`, "[]",
		`[{"id":11},{"id":12,"title":{"rendered":"Noord"}}]`, 1, 0, 2)
	all, err := client.Explain(t.Context(), shape.Catalogue)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	var steps []string
	for _, step := range all[0].Steps {
		steps = append(steps, step.Name)
	}
	if got := fmt.Sprint(all[0].Path, steps); got != "catalogue.artist[received shared.map catalogue.map served]" {
		t.Error(got)
	}
	for i, want := range map[int]string{2: `"gallery_artists":{"id":12`, 3: `{"id":1,"name":"A","gallery_artists":{"id":12,"title":"Noord"`} {
		if !strings.Contains(string(all[0].Steps[i].Value[0]), want) {
			t.Errorf("%s: %s", all[0].Steps[i].Name, all[0].Steps[i].Value)
		}
	}
}
