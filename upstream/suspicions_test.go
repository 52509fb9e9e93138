package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestListThatGoesOnIsSuspectedWhereNothingSaysHow(t *testing.T) {
	for envelope, shown := range map[string]string{
		`{"rows":[…],"next":"/v1/rows?page=2"}`:                         `.next: a link or cursor`,
		`{"rows":[…],"meta":{"pagination":{"next_cursor":"abc"}}}`:      `.meta.pagination.next_cursor: a link or cursor`,
		`{"rows":[…],"pageInfo":{"hasNextPage":true,"endCursor":"x"}}`:  ".pageInfo.hasNextPage: true",
		`{"rows":[…],"total":5}`:                                        ".total: 5",
		`{"rows":[…],"meta":{"total_pages":3}}`:                         ".meta.total_pages: 3",
		`{"rows":[…],"next":null,"has_more":false,"total":2,"pages":1}`: "",
		`{"rows":[…]}`: "",
	} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/v1/rows", upstreamtest.JSON(strings.Replace(envelope, "…", bannerList(1, 2), 1)))
		got := mustFetch(t, paged(t, cms, "custom", source.Part{Path: "v1/rows", Items: ".rows"}), shape.Banners)
		var want guard.Findings
		if shown != "" {
			want = guard.Findings{{Kind: guard.Unpaged, List: "banners", Items: 2, Shown: shown, Verdict: guard.Served}}
		}
		if !slices.Equal(got.Warnings, want) {
			t.Errorf("%s: %v, want %v", envelope, got.Warnings, want)
		}
	}
	cms := upstreamtest.New(t)
	cms.HandlePath("/v1/rows", upstreamtest.JSON("["+bannerList(1, 2)+"]", "Link", `</v1/rows?page=2>; rel="next"`))
	got := mustFetch(t, paged(t, cms, "custom", source.Part{Path: "v1/rows"}), shape.Banners)
	if len(got.Warnings) != 1 || got.Warnings[0].Warning() != `banners: 2 items taken for all, though the answer has a Link header with rel="next" (see paging)` {
		t.Errorf("%v", got.Warnings)
	}
}

func TestListThatGoesOnIsAnErrorWhereNextOrTotalSaysSo(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/v1/rows", upstreamtest.JSON(`{"rows":[`+bannerList(1, 2)+`],"next":"x","total":5,"none":null}`))
	for _, c := range []struct {
		paging source.Paging
		says   string
	}{
		{source.Paging{Next: ".next"}, "banners: want one page, since no paging.style says how the list goes on, got a next one"},
		{source.Paging{Total: ".total"}, "banners: want all of 5 items, since no paging.style says how the list goes on, got 2"},
		{source.Paging{Total: ".none"}, "banners: upstream.resources.banners.parts[0].paging.total: want a number of items, got null"},
	} {
		wantRefusal(t, paged(t, cms, "custom", source.Part{Path: "v1/rows", Items: ".rows", Paging: c.paging}), c.says)
	}
}

func TestItemsAreToldApartByWhatTheCMSIdentifiesThemBy(t *testing.T) {
	page := func(keys ...string) string {
		var items []string
		for i, key := range keys {
			items = append(items, `{"k":{"v":"`+key+`"},"n":`+string(rune('1'+i))+`}`)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	part := source.Part{
		Path: "rows", ID: ".k.v", Map: "{id: (.k.v | stable_id)}",
		Paging: source.Paging{Style: source.PagingPage, Param: "p", Walks: 2},
	}
	cms := upstreamtest.New(t)
	pages(cms, "/rows", func(query func(string) string) string {
		return map[string]string{"1": page("a", "b"), "2": page("b", "c"), "3": "[]"}[query("p")]
	})
	_, err := paged(t, cms, "custom", part).Fetch(t.Context(), shape.Banners, cachedBanners)
	wantError(t, err, ErrAnswer, `banners: the list was not the same on all of its pages, in 2 walks: item "b" was sent twice`)
	pages(cms, "/rows", func(query func(string) string) string {
		return map[string]string{"1": page("a", "a"), "2": "[]"}[query("p")]
	})
	got := mustFetch(t, paged(t, cms, "custom", part), shape.Banners)
	if got.Document.Items != 2 || len(got.Warnings) != 1 || got.Warnings[0].Kind != guard.Repeated {
		t.Errorf("%v: %s", got.Warnings, got.Document.Body)
	}
	cms.HandlePath("/mongo", upstreamtest.JSON(`[{"_id":"x","id":null},{"_id":"x"}]`))
	if got = mustFetch(t, paged(t, cms, "custom", source.Part{Path: "mongo", Map: "{id: 1}"}), shape.Banners); got.Document.Items != 2 {
		t.Errorf("%s", got.Document.Body)
	}
}

func TestDraftsAreSuspectedWhateverTheyAreCalled(t *testing.T) {
	for body, want := range map[string]int{
		`[{"id":1,"_status":"draft"}]`:                                        1,
		`[{"id":1, "status" : "Draft"}]`:                                      1,
		`[{"id":1,"published_at":null},{"id":2,"published_at":"2024-01-01"}]`: 1,
		`[{"id":1,"published_at":null},{"id":2,"published_at":null}]`:         0,
		`[{"id":1,"isDraft":true},{"id":2,"is_draft":false}]`:                 1,
		`[{"id":1,"published":false}]`:                                        1,
		`[{"id":1,"state":"in_review"}]`:                                      1,
		`[{"id":1,"title_en":"\"status\": \"draft\""}]`:                       0,
		`[{"id":1,"update":null,"status":"published"}]`:                       0,
	} {
		cms := upstreamtest.New(t)
		cms.Set(shape.Banners, body)
		dir := newFiles(t)
		write(t, dir, "banners.json", body)
		for _, url := range []string{cms.URL, "file:" + dir} {
			got := mustFetch(t, newClient(t, url, nil), shape.Banners)
			if n := len(got.Warnings); want == 0 && n != 0 || want > 0 && (n != 1 || got.Warnings[0].Kind != guard.Drafts || got.Warnings[0].Before != want) {
				t.Errorf("%s: %v, want %d drafts", body, got.Warnings, want)
			}
		}
	}
}

func TestErrorsBesideDataAreAFailure(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/graphql", upstreamtest.JSON(`{"data":{"banners":[{"id":1}]},"errors":[{"message":"resolver\u001b timed out","path":["banners",1]}]}`))
	wantRefusal(t, paged(t, cms, "custom", source.Part{Path: "graphql", Items: ".data.banners"}),
		`banners: want data without errors, got an error: resolver\x1b timed out`)
}

func TestPagingThatIsWrongSaysWhichMistakeItLooksLike(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON("["+bannerList(1, 2)+"]"))
	part := source.Part{
		Path: "rows", Query: url.Values{"lang": {"nl"}},
		Paging: source.Paging{Style: source.PagingPage, Param: "page"},
	}
	wantRefusal(t, paged(t, cms, "custom", part),
		`banners: want pages that differ, got the same page again: does the CMS know the parameter "page"?`)
	if n := len(cms.Requests()); n != 2 {
		t.Errorf("%d requests, want no further walk", n)
	}
	cms.HandlePath("/bad", upstreamtest.Answer(http.StatusBadRequest, `{"error":{"status":400,"name":"ValidationError","message":"Invalid key page\u001b[2J"}}`, nil,
		"Content-Type", "application/json"))
	part.Path = "bad"
	_, err := paged(t, cms, "custom", part).Fetch(t.Context(), shape.Banners, Held{})
	status, ok := errors.AsType[*StatusError](err)
	if !ok || status.Said != `Invalid key page\x1b[2J` || strings.Contains(err.Error(), "Invalid") {
		t.Errorf("%v: %+v", err, status)
	}
}

func TestErrorsNameTheURLOfThePartThatFailed(t *testing.T) {
	cms := upstreamtest.New(t)
	for path, body := range map[string]string{
		"/a": `[{"id":1,"gallery_artists":null}]`, "/b": `[{"id":1},{"id":"x"}]`, "/c": `[{"id":1,"address":[]}]`,
	} {
		cms.HandlePath(path, upstreamtest.JSON(body))
	}
	client := func(change func(parts []source.Part)) *Client {
		parts := []source.Part{{Name: "artist", Path: "a"}, {Name: "artwork", Path: "b"}, {Name: "gallery", Path: "c"}}
		change(parts)
		return newClient(t, cms.URL, func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Parts: parts}}
		})
	}
	_, err := client(func([]source.Part) {}).Fetch(t.Context(), shape.Catalogue, Held{})
	wantError(t, err, ErrAnswer, "fetch catalogue: GET "+cms.URL+`/b: catalogue.artwork[1].id: want an integer, got "x"`)
	_, err = client(func(parts []source.Part) { parts[2].Map = "need(\"name\")" }).Fetch(t.Context(), shape.Catalogue, Held{})
	if err == nil || !strings.HasPrefix(err.Error(), "fetch catalogue: GET "+cms.URL+"/c: catalogue.gallery[0]: ") {
		t.Error(err)
	}
	for program, want := range map[string]string{ // which no part is to blame for
		`.artist | error("no")`:                        "make the catalogue of its parts: catalogue: upstream.resources.catalogue.map: no",
		`{artist: .artwork, artwork: [], gallery: []}`: `make the catalogue of its parts: catalogue.artist[1].id: want an integer, got "x"`,
	} {
		cms.HandlePath("/b", upstreamtest.JSON(`[{"id":1,"gallery_artists":null},{"id":"x"}]`))
		joined := newClient(t, cms.URL, func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Map: program, Parts: []source.Part{
				{Name: "artist", Path: "a"}, {Name: "artwork", Path: "b"}, {Name: "gallery", Path: "c"},
			}}}
		})
		_, err := joined.Fetch(t.Context(), shape.Catalogue, Held{})
		wantError(t, err, ErrAnswer, "fetch catalogue: "+want)
	}
}

// nginx compresses what its upstream says with 403 and 404.
func TestACompressedErrorOrPageIsRead(t *testing.T) {
	for _, c := range []struct {
		status            int
		media, body, want string
	}{
		{403, "application/json", `{"errors":[{"message":"No permission.","extensions":{"code":"FORBIDDEN"}}]}`, "status 403 (FORBIDDEN)"},
		{200, "text/html", `<form><input type="password"></form>`, "want JSON, got an HTML page with a login form (text/html)"},
	} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/rows", upstreamtest.Answer(c.status, string(packed(t, c.body)), nil, "Content-Type", c.media, "Content-Encoding", "gzip"))
		_, err := paged(t, cms, "custom", source.Part{Path: "rows"}).Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrAnswer, c.want)
		if status, ok := errors.AsType[*StatusError](err); ok && status.Said != "No permission." {
			t.Errorf("%+v", status)
		}
	}
}

func TestWhatAnyCMSSaysOfAnErrorIsKept(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":[{"status":"404","title":"Not Found","detail":"The resource was not found."}]}`: "The resource was not found.",
		`{"errors":[{"title":"Not Found"}]}`:                                        "Not Found",
		`{"data":{},"message":"Missing collection context.","status":404}`:          "Missing collection context.",
		`{"detail":"Given token not valid","code":"token_not_valid","messages":[]}`: "Given token not valid",
		`{"type":"about:blank","title":"Forbidden","status":403}`:                   "Forbidden",
		`{"detail":"Not found."}`:                                                   "Not found.",
		`{"errors":{"x":["y"]}}`:                                                    "",
		`["no"]`:                                                                    "",
	} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/rows", upstreamtest.Answer(http.StatusNotFound, body, nil, "Content-Type", "application/json"))
		client := newClient(t, cms.URL, func(o *options) {
			o.Authorization, o.Shared.Secrets = "Bearer tok", []string{"s3", "k%y-of-the-cms"}
			o.Resources = map[shape.Resource]source.Resource{shape.Banners: {Parts: []source.Part{{Path: "rows", Query: url.Values{
				"sort": {"id"}, "key": {"k%y-of-the-cms"}, "a": {"s3"}, "b": {"xs3"},
			}}}}}
		})
		_, err := client.Fetch(t.Context(), shape.Banners, Held{})
		status, ok := errors.AsType[*StatusError](err)
		if !ok || status.Said != want {
			t.Errorf("%s: %+v, want %q", body, status, want)
		}
		wantError(t, err, ErrAnswer, "/rows: status 404")
	}
}

func TestRelationsThatDidNotComeAreSuspected(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Set(shape.Rules, `[{"id":1,"page_rules":[{"id":1},{"id":2,"page":null}]},{"id":2}]`)
	got := mustFetch(t, newClient(t, cms.URL, nil), shape.Rules)
	want := "rules: 2 relations are missing (not expanded, or not permitted?): rules[0].page_rules[0].page, rules[1].page_rules"
	if len(got.Warnings) != 1 || got.Warnings[0].Kind != guard.Unrelated || got.Warnings[0].Warning() != want {
		t.Errorf("%v", got.Warnings)
	}
}

// A program that makes an object of an item makes null of a relation that did not come, and "" of a
// text that it does not find: the items as they came tell.
func TestWhatTheCMSSentAndNoItemHasIsSuspected(t *testing.T) {
	unrelated := guard.Findings{{Kind: guard.Unrelated, List: "catalogue.artist", Before: 2, Shown: "catalogue.artist[].gallery_artists", Verdict: guard.Served}}
	for name, c := range map[string]struct {
		received, program string
		want              guard.Findings
	}{
		"ids in place of records, and nothing expanded": {
			`{"id":%d,"name":"x","gallery_artists":"abc","expand":{}}`, "{id, name, gallery_artists: .expand.gallery_artists}", unrelated,
		},
		"nothing came": {`{"id":%d,"name":"x"}`, "{id, name, gallery_artists}", unrelated},
		"null came":    {`{"id":%d,"name":"x","gallery_artists":null}`, "{id, name, gallery_artists}", nil},
		"null came in an envelope": {
			`{"id":%d,"attributes":{"name":"x","gallery_artists":{"data":null}}}`, ".attributes + {id} | .gallery_artists = null", nil,
		},
		"a relation": {`{"id":%d,"name":"x","gallery_artists":{"id":1,"title":"g"}}`, ".", nil},
		"a text under another level": {
			`{"id":%d,"attributes":{"name":"x","gallery_artists":null}}`, "{id, name, gallery_artists}",
			guard.Findings{{Kind: guard.Blank, List: "catalogue.artist", Field: "name", Before: 2, Items: 2, Verdict: guard.Served}},
		},
		"a text without content": {`{"id":%d,"name":"","gallery_artists":null}`, "{id, name, gallery_artists}", nil},
		"a text that is empty, and that of an object beside it": {
			`{"id":%d,"name":"","gallery_artists":null,"agent":{"name":"x"}}`, "{id, name, gallery_artists}", nil,
		},
		"a text that is left out": {`{"id":%d,"gallery_artists":null}`, "{id, name, gallery_artists}", nil},
		"the same id for all":     {`{"id":1,"name":"x%d","gallery_artists":null}`, ".", guard.Findings{{Kind: guard.Repeated, List: "catalogue.artist", Before: 2, After: 1, Items: 2, Verdict: guard.Served}}},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			cms.HandlePath("/a", upstreamtest.JSON("["+fmt.Sprintf(c.received, 1)+","+fmt.Sprintf(c.received, 2)+"]"))
			cms.HandlePath("/none", upstreamtest.JSON("[]"))
			id := ".id"
			if strings.HasPrefix(c.received, `{"id":1`) {
				id = ".name"
			}
			client := newClient(t, cms.URL, func(o *options) {
				o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Parts: []source.Part{
					{Name: "artist", Path: "a", Map: c.program, ID: id}, {Name: "artwork", Path: "none"}, {Name: "gallery", Path: "none"},
				}}}
			})
			if got := mustFetch(t, client, shape.Catalogue); !slices.Equal(got.Warnings, c.want) {
				t.Errorf("%v, want %v", got.Warnings, c.want)
			}
		})
	}
}

// A mistake in a program that leaves out everything is seen, wherever the program stands.
func TestItemsOfWhichNoneAreMadeAreAWarning(t *testing.T) {
	rows, whole := "["+bannerList(1, 2)+"]", `{"artist":[{"id":1,"gallery_artists":null},{"id":2,"gallery_artists":null}],"artwork":[{"id":1},{"id":2}],"gallery":[]}`
	dropped := func(list string) string { return list + ": 2 items received and none made (see map)" }
	for name, c := range map[string]struct {
		resource shape.Resource
		body     string
		from     source.Resource
		want     []string
	}{
		"of the part":               {shape.Banners, rows, source.Resource{Parts: []source.Part{{Path: "rows", Map: "select(.titel != null)"}}}, []string{dropped("banners")}},
		"of the whole list":         {shape.Banners, rows, source.Resource{Map: "map(select(.titel != null))", Parts: []source.Part{{Path: "rows"}}}, []string{dropped("banners")}},
		"of one list of an object":  {shape.Catalogue, whole, source.Resource{Map: ".artwork |= map(select(.titel != null))", Parts: []source.Part{{Path: "rows"}}}, []string{dropped("catalogue.artwork")}},
		"of an object":              {shape.Catalogue, whole, source.Resource{Parts: []source.Part{{Path: "rows", Map: ".artist = []"}}}, []string{dropped("catalogue.artist")}},
		"of parts with other names": {shape.Catalogue, rows, source.Resource{Map: "{artist: [], artwork: [], gallery: []}", Parts: []source.Part{{Name: "a", Path: "rows"}}}, []string{dropped("catalogue.artist"), dropped("catalogue.artwork"), dropped("catalogue.gallery")}},
		"of parts, but not of all":  {shape.Catalogue, rows, source.Resource{Map: "{artist: [{id: 1, gallery_artists: null}], artwork: [], gallery: []}", Parts: []source.Part{{Name: "a", Path: "rows"}}}, nil},
		"of one":                    {shape.Banners, "[" + bannerList(1, 1) + "]", source.Resource{Parts: []source.Part{{Path: "rows", Map: "empty"}}}, nil},
		"of some":                   {shape.Banners, rows, source.Resource{Parts: []source.Part{{Path: "rows", Map: "select(.id == 1)"}}}, nil},
		"none came":                 {shape.Banners, "[]", source.Resource{Parts: []source.Part{{Path: "rows", Map: "."}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			cms.HandlePath("/rows", upstreamtest.JSON(c.body))
			client := newClient(t, cms.URL, func(o *options) {
				o.Resources = map[shape.Resource]source.Resource{c.resource: c.from}
			})
			var got []string
			for _, w := range mustFetch(t, client, c.resource).Warnings {
				got = append(got, w.Warning())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAListThatIsShorterThanItMustBeIsRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON("["+bannerList(1, 2)+"]"))
	part := source.Part{Path: "rows", MinItems: 2}
	mustFetch(t, paged(t, cms, "custom", part), shape.Banners)
	part.MinItems = 3
	wantRefusal(t, paged(t, cms, "custom", part), "banners: want at least 3 items (min_items), got 2")
	part.Map = "select(.id == 1)"
	part.MinItems = 2
	wantRefusal(t, paged(t, cms, "custom", part), "banners: want at least 2 items (min_items), got 1")
}

// TestAMappingThatLosesItemsIsWarnedOfBesideTheCopyOfAnother has a reload with a program that selects
// by a field that is misspelt for most items, and loses a text.
func TestAMappingThatLosesItemsIsWarnedOfBesideTheCopyOfAnother(t *testing.T) {
	cms := upstreamtest.New(t)
	var items []string
	for i := range 20 {
		items = append(items, fmt.Sprintf(`{"id":%d,"title_en":"a"}`, i+1))
	}
	cms.HandlePath("/rows", upstreamtest.JSON("["+strings.Join(items, ",")+"]"))
	client := func(program string) *Client {
		return paged(t, cms, "custom", source.Part{Path: "rows", Map: program})
	}
	before := mustFetch(t, client("."), shape.Banners)
	other := Held{Survey: before.Document.Survey, Other: guard.Policy{Shrink: 0.5, Hold: time.Minute}}
	for program, want := range map[string]string{
		"select(.id < 4)": "banners: 3 banners, 20 before",
		"del(.title_en)":  "banners: title_en is empty in all 20 banners, 20 had it",
		"empty":           "banners: no banners, 20 before banners: 20 items received and none made (see map)",
		".":               "",
	} {
		c := client(program)
		got, err := c.Fetch(t.Context(), shape.Banners, other)
		testkit.Must(t, err)
		var said []string
		for _, w := range got.Warnings.Standing() {
			if w.Kind != guard.Blank {
				said = append(said, w.Warning())
			}
		}
		if strings.Join(said, " ") != want {
			t.Errorf("%s: %s", program, said)
		}
		after, err := c.Fetch(t.Context(), shape.Banners, Held{Survey: got.Document.Survey, Warnings: got.Warnings})
		testkit.Must(t, err)
		if len(after.Warnings.Standing()) < len(said) && program != "empty" {
			t.Errorf("%s: then %v", program, after.Warnings)
		}
	}
}
