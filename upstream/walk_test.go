package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"vitrine/config/source"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// idsOf are the ids of banners.
func idsOf(got Result) string {
	all := []int64{}
	for _, b := range got.Document.Banners() {
		all = append(all, b.ID)
	}
	return fmt.Sprint(all)
}

// cachedBanners is a copy that stays if the list changes while it is read.
var cachedBanners = Held{Survey: guard.Survey{{Path: "banners"}}}

func wantIDs(t *testing.T, c *Client, want string) {
	t.Helper()
	if got, err := c.Fetch(t.Context(), shape.Banners, Held{}); err != nil || idsOf(got) != want {
		t.Errorf("got %s, %v; want %s", idsOf(got), err, want)
	}
}

// wantRefusal holds a failed fetch to the end of its text.
func wantRefusal(t *testing.T, c *Client, suffix string) {
	t.Helper()
	_, err := c.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrAnswer, suffix)
}

// bannerList is n banners from id on, as JSON without brackets.
func bannerList(id, n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"id":%d,"documentId":"d%d"}`, id+i, id+i))
	}
	return strings.Join(items, ",")
}

// pages answers at path with what page makes of each request's query.
func pages(cms *upstreamtest.CMS, path string, page func(query func(string) string) string) {
	cms.HandlePath(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := page(req.URL.Query().Get)
		if code, err := strconv.Atoi(body); err == nil {
			upstreamtest.Status(code).ServeHTTP(w, req)
			return
		}
		upstreamtest.JSON(body).ServeHTTP(w, req)
	}))
}

// paged makes a client whose banners are one part.
func paged(t *testing.T, cms *upstreamtest.CMS, preset string, p source.Part) *Client {
	t.Helper()
	return newClient(t, cms.URL, func(o *options) {
		o.Preset, o.Resources = preset, map[shape.Resource]source.Resource{shape.Banners: {Parts: []source.Part{p}}}
		if preset == "custom" {
			o.Resources = bannersAlone(p)
		}
	})
}

// drfPages are the pages of Django REST Framework's PageNumberPagination, or with a count below 0
// of its CursorPagination; link makes the link to page n.
func drfPages(count int, link func(n int) string, lists ...string) func(func(string) string) string {
	return func(query func(string) string) string {
		n, _ := strconv.Atoi(query("page"))
		n = max(n, 1)
		if n > len(lists) {
			return "404"
		}
		envelope := map[string]any{"previous": nil, "next": nil, "results": json.RawMessage("[" + lists[n-1] + "]")}
		if count >= 0 {
			envelope["count"] = count
		}
		if n < len(lists) {
			envelope["next"] = link(n + 1)
		}
		body, _ := json.Marshal(envelope) // plain values
		return string(body)
	}
}

// pageLink is a link by its query alone.
func pageLink(n int) string { return "?page=" + strconv.Itoa(n) }

func TestLinksAreFollowedByTheirQueryAlone(t *testing.T) {
	for name, c := range map[string]struct {
		base, link string
		hosts      []string
	}{
		"as it is":             {"", "{url}/gvapp/singlebanner?page=%d", nil},
		"another scheme":       {"", "https://127.0.0.1/gvapp/singlebanner?page=%d", nil},
		"another port":         {"", "http://127.0.0.1:8000/gvapp/singlebanner?page=%d", nil},
		"a prefix taken away":  {"/api/v1", "{url}/gvapp/singlebanner?page=%d", nil},
		"a prefix added":       {"", "{url}/cms/gvapp/singlebanner?page=%d", nil},
		"no host":              {"", "/gvapp/singlebanner?page=%d", nil},
		"the query alone":      {"", "?page=%d", nil},
		"no count":             {"", "?page=%d", nil},
		"a name that is known": {"", "https://cms.example.org/gvapp/singlebanner?page=%d", []string{"CMS.example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			link := func(n int) string { return fmt.Sprintf(strings.ReplaceAll(c.link, "{url}", cms.URL), n) }
			count := 5
			if name == "no count" { // that of cursors
				count = -1
			}
			pages(cms, c.base+"/gvapp/singlebanner", drfPages(count, link, bannerList(1, 2), bannerList(3, 2), bannerList(5, 1)))
			client := newClient(t, cms.URL+c.base, func(o *options) {
				o.Resources = map[shape.Resource]source.Resource{shape.Banners: {Parts: []source.Part{{Paging: source.Paging{Hosts: c.hosts}}}}}
			})
			wantIDs(t, client, "[1 2 3 4 5]")
		})
	}
}

func TestLinksElsewhereAreRefusedAndNotAsked(t *testing.T) {
	elsewhere := upstreamtest.New(t)
	other := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	for link, reason := range map[string]string{
		other + "/gvapp/singlebanner?page=%d":          "a link to another host, " + strings.TrimPrefix(other, "http://") + " (if that is a name of the CMS, add it to paging.hosts)",
		"http://u:p@127.0.0.1/gvapp/singlebanner?p=%d": "a link with a user in it",
		"ftp://127.0.0.1/gvapp/singlebanner?page=%d":   "a link of another scheme",
		"/login?next=%d": "a link to another path, /login",
		"http://%%zz/%d": "something that is not a URL",
	} {
		cms := upstreamtest.New(t)
		pages(cms, "/gvapp/singlebanner", drfPages(4, func(n int) string { return fmt.Sprintf(link, n) }, bannerList(1, 2), bannerList(3, 2)))
		wantRefusal(t, newClient(t, cms.URL, nil), "banners: want a link to the next page of the same list, got "+reason)
		if n := cms.Count(shape.Banners); n != 1 {
			t.Errorf("%s: %d requests, want 1", link, n)
		}
	}
	if len(elsewhere.Requests()) != 0 {
		t.Error("another host was asked")
	}
}

func TestLinksInACircleAreRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/gvapp/singlebanner", func(query func(string) string) string {
		if query("page") == "2" {
			return `{"next":"?page=2","results":[` + bannerList(3, 2) + `]}`
		}
		return `{"next":"?page=2","results":[` + bannerList(1, 2) + `]}`
	})
	wantRefusal(t, newClient(t, cms.URL, nil), "banners: want a page that was not read before, got a link to a page that was read already")
}

// One empty page can be a filter's; a CMS that sends a cursor for ever sends two.
func TestASecondEmptyPageWithACursorIsRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	page, items := 0, []string{bannerList(1, 2), "", bannerList(3, 1), "", "", ""}
	pages(cms, "/rows", func(query func(string) string) string {
		page, _ = strconv.Atoi(query("after"))
		return fmt.Sprintf(`{"rows":[%s],"cursor":%d,"more":%t}`, items[min(page, 5)], page+1, page < 3)
	})
	paging := source.Paging{Style: source.PagingCursor, Param: "after", Next: ".cursor"}
	wantRefusal(t, paged(t, cms, "custom", source.Part{Path: "rows", Items: ".rows", Paging: paging}),
		"banners: want no next page (paging.next: null) at the list's end, got two empty pages that have one")
	if page != 4 {
		t.Errorf("page %d was asked for, want no more than 4", page)
	}
	paging.Next = "if .more then .cursor else null end"
	wantIDs(t, paged(t, cms, "custom", source.Part{Path: "rows", Items: ".rows", Paging: paging}), "[1 2 3]")
}

// A cursor that is a number is sent as it came: one beyond 64 bits, or with a fraction, is another.
func TestACursorThatIsANumberIsSentAsItCame(t *testing.T) {
	cms := upstreamtest.New(t)
	for sent, want := range map[string]string{
		"7": "7", "12345678901234567890": "12345678901234567890", "1700000000.125": "1700000000.125", "2e2": "200", "-1": "-1",
	} {
		asked := ""
		pages(cms, "/rows", func(query func(string) string) string {
			if asked = query("after"); asked == "" {
				return `{"rows":[{"id":1}],"next":` + sent + `}`
			}
			return `{"rows":[{"id":2}],"next":null}`
		})
		for _, program := range []string{".next", ".next | ."} {
			wantIDs(t, paged(t, cms, "custom", source.Part{
				Path: "rows", Items: ".rows", Paging: source.Paging{Style: source.PagingCursor, Param: "after", Next: program},
			}), "[1 2]")
			if asked != want {
				t.Errorf("%s by %s: asked for what follows %s", sent, program, asked)
			}
		}
	}
}

func TestATotalThatIsNoNumberOfItemsIsRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	for _, total := range []string{"1.5", "1e400", "12345678901234567890", "-1", `"x"`, "true", "[]"} {
		pages(cms, "/rows", func(query func(string) string) string {
			return `{"rows":[{"id":` + query("p") + `}],"total":` + total + `}`
		})
		wantRefusal(t, paged(t, cms, "custom", source.Part{
			Path: "rows", Items: ".rows", Paging: source.Paging{Style: source.PagingPage, Param: "p", Total: ".total"},
		}), "banners: upstream.resources.banners.parts[0].paging.total: want a number of items, got "+total)
	}
}

// What is served is the last value of a repeated name, so an item is told from others by it, and a
// list found by it.
func TestTheLastValueOfARepeatedNameCountsEverywhere(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	for _, c := range []struct {
		items, want string
		reason      string
	}{
		{`[{"id":1,"id":2},{"id":1,"id":3}]`, "[2 3]", ""},
		{`[{"id":1,"\u0069d":2},{"id":1,"i\u0064":3}]`, "[2 3]", ""},
		{`[{"id":1,"id":3},{"id":2,"id":3}]`, "[3 3]", ""},
		{`[{"id":1}],"results":[{"id":2}]`, "[2]", ""},
		{`[{"id":1}],"results":null`, "", "banners: want a list at .results?, got an object with next, results"},
	} {
		pages(cms, "/gvapp/singlebanner", func(func(string) string) string { return `{"next":null,"results":` + c.items + `}` })
		if c.reason != "" {
			wantRefusal(t, client, c.reason)
			continue
		}
		wantIDs(t, client, c.want)
	}
}

// An identity of two numbers is both of them, not their digits in a row.
func TestTheValuesOfAnIdentityAreToldApart(t *testing.T) {
	cms := upstreamtest.New(t)
	client := paged(t, cms, "custom", source.Part{Path: "rows", ID: "[.site, .nr]", Map: "{id: ((.site // 0) * 100 + (.nr // 0))}"})
	for items, want := range map[string]string{
		`{"site":1,"nr":11},{"site":11,"nr":1}`: "[111 1101]",
		`{"site":1},{"nr":1}`:                   "[100 1]",
	} {
		pages(cms, "/rows", func(func(string) string) string { return "[" + items + "]" })
		wantIDs(t, client, want)
	}
	pages(cms, "/rows", func(func(string) string) string { return `[{"site":1,"nr":1},{"nr":1,"site":1}]` })
	wantIDs(t, client, "[101 101]")
	pages(cms, "/rows", func(func(string) string) string { return `[{"title":"x"}]` })
	wantRefusal(t, client, "banners[0]: upstream.resources.banners.parts[0].id: want the item's identity, got null")
}

func TestWalksAreBounded(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/gvapp/singlebanner", func(query func(string) string) string {
		n, _ := strconv.Atoi(query("page"))
		return fmt.Sprintf(`{"next":"?page=%d","results":[%s]}`, n+1, bannerList(n*10, 2))
	})
	client := paged(t, cms, "drf", source.Part{Paging: source.Paging{MaxPages: 7}})
	wantRefusal(t, client, "banners: want at most 7 pages, got more")
	client = paged(t, cms, "drf", source.Part{Paging: source.Paging{MaxItems: 9}})
	wantRefusal(t, client, "banners: want at most 9 items, got more")
	client = newClient(t, cms.URL, func(o *options) { o.MaxBytes = 1000 })
	wantRefusal(t, client, "bytes")
}

// TestOnlyAListInOneAnswerHasValidators has lists whose first answer stays the same when an item is
// added: to the second page, or to one that was a 404 before.
func TestOnlyAListInOneAnswerHasValidators(t *testing.T) {
	page := source.Paging{Style: source.PagingPage, Param: "page", PastEnd: 404}
	offset := source.Paging{Style: source.PagingOffset, Param: "page", PastEnd: 404}
	for name, c := range map[string]struct {
		part     source.Part
		answer   func(func(string) string) string
		requests int
		has      bool
	}{
		"one page":  {source.Part{}, drfPages(2, pageLink, bannerList(1, 2)), 1, true},
		"two pages": {source.Part{}, drfPages(3, pageLink, bannerList(1, 2), bannerList(3, 1)), 2, false},
		"a 404 at the end": {source.Part{Paging: page, Items: "."}, func(q func(string) string) string {
			return map[string]string{"1": "[" + bannerList(1, 2) + "]", "2": "404"}[q("page")]
		}, 2, false},
		"past the offset": {source.Part{Paging: offset, Items: "."}, func(q func(string) string) string {
			return map[string]string{"0": "[" + bannerList(1, 2) + "]", "2": "404"}[q("page")]
		}, 2, false},
	} {
		cms := upstreamtest.New(t)
		pages(cms, "/gvapp/singlebanner", c.answer)
		client := paged(t, cms, "drf", c.part)
		first := mustFetch(t, client, shape.Banners)
		if has := first.Validators.ETag != ""; has != c.has || first.Attempts != c.requests {
			t.Errorf("%s: validators %+v after %d requests", name, first.Validators, first.Attempts)
		}
		second, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: first.Validators})
		if err != nil || second.NotModified != c.has {
			t.Errorf("%s: %+v, %v", name, second, err)
		}
	}
}

// TestSharedParametersAreSentOnceOnEachPage has a CMS that repeats the query in its links, as
// Django does.
func TestSharedParametersAreSentOnceOnEachPage(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/gvapp/singlebanner", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, _ := strconv.Atoi(req.URL.Query().Get("page"))
		query := "page=" + strconv.Itoa(max(n, 1)+1) + "&" + strings.TrimPrefix(req.URL.RawQuery, "page="+strconv.Itoa(n)+"&")
		link, _ := json.Marshal("?" + query)
		if n == 4 {
			link = []byte("null")
		}
		upstreamtest.JSON(fmt.Sprintf(`{"next":%s,"results":[%s]}`, link, bannerList(10*n, 2))).ServeHTTP(w, req)
	}))
	client := newClient(t, cms.URL, func(o *options) {
		o.Shared = source.Shared{Query: url.Values{"api key": {"a+b"}, "lang": {"nl", "fr"}}}
	})
	mustFetch(t, client, shape.Banners)
	for _, req := range cms.Requests() {
		if got, _ := url.ParseQuery(req.Query); len(got["api key"]) != 1 || len(got["lang"]) != 2 {
			t.Errorf("asked for %s", req.Query)
		}
	}
}

// A proxy, a renamed route or a lost permission can answer so in the middle of a list.
func TestAnErrorOnALaterPageIsNotTheEndUnlessPagingSaysSo(t *testing.T) {
	for code, hint := range map[int]string{400: " (paging.past_end: 400, if the list ends so)", 404: " (paging.past_end: 404, if the list ends so)", 503: ""} {
		cms := upstreamtest.New(t)
		pages(cms, "/rows", func(query func(string) string) string {
			if query("page") != "1" {
				return strconv.Itoa(code)
			}
			return "[" + bannerList(1, 2) + "]"
		})
		paging := source.Paging{Style: source.PagingPage, Param: "page"}
		wantRefusal(t, paged(t, cms, "custom", source.Part{Path: "rows", Paging: paging}),
			fmt.Sprintf("GET %s/rows (page 2): status %d%s", cms.URL, code, hint))
		if paging.PastEnd = code; hint != "" {
			wantIDs(t, paged(t, cms, "custom", source.Part{Path: "rows", Paging: paging}), "[1 2]")
		}
	}
}

// TestAListThatChangesIsWalkedAgain has one item on two pages, totals that differ and a page that is
// gone: in the first two walks, and in each, which is taken only without a copy.
func TestAListThatChangesIsWalkedAgain(t *testing.T) {
	whole := drfPages(4, pageLink, bannerList(1, 2), bannerList(3, 2))
	for name, c := range map[string]struct {
		torn        func(func(string) string) string
		want, shown string
	}{
		"an item twice": {drfPages(4, pageLink, bannerList(1, 2), bannerList(2, 2)), "[1 2 3]", "item 2 was sent twice"},
		"an item less":  {drfPages(4, pageLink, bannerList(1, 2), bannerList(3, 1)), "[1 2 3]", "a total of 4 items, but 3 were sent"},
		"a page less": {func(q func(string) string) string {
			if q("page") == "2" {
				return "404"
			}
			return whole(q)
		}, "[1 2]", "page 2 is gone (status 404)"},
		"a count that changes": {func(q func(string) string) string {
			return drfPages(4+len(q("page")), pageLink, bannerList(1, 2), bannerList(3, 2))(q)
		}, "[1 2 3 4]", "a total of 4 items on one page, 5 on another"},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			walks, settles := 0, 3
			pages(cms, "/gvapp/singlebanner", func(query func(string) string) string {
				if query("page") == "" {
					walks++
				}
				if walks == settles {
					return whole(query)
				}
				return c.torn(query)
			})
			client := newClient(t, cms.URL, nil)
			wantIDs(t, client, "[1 2 3 4]")
			if walks != 3 {
				t.Errorf("%d walks, want 3", walks)
			}
			walks, settles = 0, 9
			got := mustFetch(t, client, shape.Banners)
			if ids := idsOf(got); ids != c.want || walks != 3 || !got.Unsteady {
				t.Errorf("%s in %d walks, unsteady: %t", ids, walks, got.Unsteady)
			}
			if len(got.Warnings) != 1 || got.Warnings[0].Kind != guard.Unsteady || got.Warnings[0].Shown != c.shown {
				t.Errorf("%+v", got.Warnings)
			}
			walks = 0
			_, err := client.Fetch(t.Context(), shape.Banners, Held{Survey: got.Document.Survey})
			wantError(t, err, ErrAnswer, "banners: the list was not the same on all of its pages, in 3 walks: "+c.shown)
		})
	}
}

func TestATotalBelowWhatCameIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		paging source.Paging
		page   func(n int) string // without a list: the end
		want   string
		warned bool
	}{
		"link": {source.Paging{Style: source.PagingLink, Next: ".next", Total: ".total"}, func(n int) string {
			return map[int]string{0: `"next":"?p=2","total":2`, 2: `"next":null,"total":2`}[n]
		}, "[0 1 2 3]", true},
		"page": {source.Paging{Style: source.PagingPage, Param: "p", Total: ".total"}, func(n int) string { return map[int]string{1: `"total":1`, 2: `"total":1`}[n] }, "[0 1 2 3]", true},
		"that of a page": {source.Paging{Style: source.PagingPage, Param: "p", SizeParam: "n", Size: 2, Total: ".total"}, func(n int) string {
			return map[int]string{1: `"total":2`, 2: `"total":2`}[n]
		}, "[0 1 2 3]", true},
		"a full page that is all": {source.Paging{Style: source.PagingPage, Param: "p", SizeParam: "n", Size: 2, Total: ".total"}, func(n int) string {
			return map[int]string{1: `"total":2`}[n]
		}, "[0 1]", false},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			pages(cms, "/rows", func(query func(string) string) string {
				n, _ := strconv.Atoi(query("p"))
				around := c.page(n)
				if around == "" {
					return `{"rows":[],"total":2}`
				}
				return `{"rows":[` + bannerList(2*max(n-1, 0), 2) + `],` + around + `}`
			})
			client := paged(t, cms, "custom", source.Part{Path: "rows", Items: ".rows", Paging: c.paging})
			wantIDs(t, client, c.want)
			got := mustFetch(t, client, shape.Banners)
			if warned := len(got.Warnings) == 1 && got.Warnings[0].Kind == guard.Miscounted; warned != c.warned || len(got.Warnings) > 1 {
				t.Errorf("%v", got.Warnings)
			}
		})
	}
}

func TestAListThatGoesOnAfterItsLastPageIsNoticed(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/rows", func(query func(string) string) string {
		return `{"rows":[` + bannerList(1, 2) + `],"total":2,"has_more":true,"pages":1}`
	})
	got := mustFetch(t, paged(t, cms, "custom", source.Part{
		Path: "rows", Items: ".rows", Paging: source.Paging{Style: source.PagingOffset, Param: "o", Total: ".total"},
	}), shape.Banners)
	if len(got.Warnings) != 1 || got.Warnings[0].Kind != guard.Unpaged || got.Warnings[0].Shown != ".has_more: true" {
		t.Errorf("%v", got.Warnings)
	}
}

// TestOnlyA400AboutThePageEndsAFullList has a WordPress whose totals a CDN removes.
func TestOnlyA400AboutThePageEndsAFullList(t *testing.T) {
	for code, want := range map[string]string{
		`{"code":"rest_post_invalid_page_number","message":"x","data":{"status":400}}`: "",
		`{"code":"rest_invalid_param","message":"orderby","data":{"status":400}}`:      "status 400 (rest_invalid_param)",
	} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/banners", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Query().Get("page") == "1" {
				upstreamtest.JSON("["+bannerList(1, 2)+"]").ServeHTTP(w, req)
				return
			}
			upstreamtest.Answer(400, code, nil, "Content-Type", "application/json").ServeHTTP(w, req)
		}))
		client := paged(t, cms, "wordpress", source.Part{Path: "banners", Paging: source.Paging{Size: 2}})
		if want == "" {
			wantIDs(t, client, "[1 2]")
		} else {
			wantRefusal(t, client, want)
		}
	}
}

// TestAnIdAsTextIsTheSameId has the ids of one page as numbers, and those of the next as texts.
func TestAnIdAsTextIsTheSameId(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/gvapp/singlebanner", drfPages(2, pageLink, `{"id":1}`, `{"id":"1"}`))
	got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners)
	if got.Document.Items != 1 || !got.Unsteady {
		t.Errorf("%s, %v", got.Document.Body, got.Warnings)
	}
}
