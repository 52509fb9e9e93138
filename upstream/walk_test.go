package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"vitrine/config/source"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// ids fetches the banners and returns their ids.
func ids(t *testing.T, c *Client) ([]int64, error) {
	t.Helper()
	got, err := c.Fetch(t.Context(), shape.Banners, Held{})
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, b := range got.Document.Banners() {
		all = append(all, b.ID)
	}
	return all, nil
}

func wantIDs(t *testing.T, c *Client, want string) {
	t.Helper()
	got, err := ids(t, c)
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

// wantRefusal holds a failed fetch to the end of its text.
func wantRefusal(t *testing.T, c *Client, suffix string) {
	t.Helper()
	got, err := ids(t, c)
	if err == nil {
		t.Fatalf("got %v, want a refusal", got)
	}
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
		"a name that is known": {"", "https://cms.example.org/gvapp/singlebanner?page=%d", []string{"CMS.example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			link := func(n int) string { return fmt.Sprintf(strings.ReplaceAll(c.link, "{url}", cms.URL), n) }
			pages(cms, c.base+"/gvapp/singlebanner", drfPages(5, link, bannerList(1, 2), bannerList(3, 2), bannerList(5, 1)))
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

func TestCursorPagesHaveNoCount(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/gvapp/singlebanner", drfPages(-1, pageLink, bannerList(9, 2), bannerList(7, 1)))
	wantIDs(t, newClient(t, cms.URL, nil), "[9 10 7]")
}

func TestListThatChangedWhileItWasReadIsReadAgain(t *testing.T) {
	for name, torn := range map[string]func(func(string) string) string{
		"an item twice": drfPages(4, pageLink, bannerList(1, 2), bannerList(2, 2)),
		"an item less":  drfPages(4, pageLink, bannerList(1, 2), bannerList(3, 1)),
		"a page less": func(q func(string) string) string {
			if q("page") == "2" {
				return "404"
			}
			return drfPages(4, pageLink, bannerList(1, 2), bannerList(3, 2))(q)
		},
		"a count that changes": func(q func(string) string) string {
			return drfPages(4+len(q("page")), pageLink, bannerList(1, 2), bannerList(3, 2))(q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			walks := 0
			whole := drfPages(4, pageLink, bannerList(1, 2), bannerList(3, 2))
			pages(cms, "/gvapp/singlebanner", func(query func(string) string) string {
				if query("page") == "" {
					walks++
				}
				if walks < 3 {
					return torn(query)
				}
				return whole(query)
			})
			wantIDs(t, newClient(t, cms.URL, nil), "[1 2 3 4]")
			if walks != 3 {
				t.Errorf("%d walks, want 3", walks)
			}
		})
	}
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
		}), "banners: want a number of items (paging.total), got "+total)
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
		{`[{"id":1,"id":3},{"id":2,"id":3}]`, "", "banners: want each item once, got item 3 was sent twice"},
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
	wantRefusal(t, client, "banners: want each item once, got item 1,1 was sent twice")
	pages(cms, "/rows", func(func(string) string) string { return `[{"title":"x"}]` })
	wantRefusal(t, client, "banners[0]: want the item's identity from the program, got null")
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

// TestAListThatEndsPastItsLastPageHasNoValidators has a list whose end is a 404: an item that is
// added to its second page leaves the first as it was.
func TestAListThatEndsPastItsLastPageHasNoValidators(t *testing.T) {
	for _, style := range []string{source.PagingPage, source.PagingOffset} {
		cms := upstreamtest.New(t)
		var second atomic.Value
		second.Store("404")
		pages(cms, "/rows", func(q func(string) string) string {
			switch q("p") {
			case "0", "1":
				return "[" + bannerList(1, 2) + "]"
			case "2":
				return second.Load().(string) //nolint:forcetypeassert // as stored
			}
			return "404"
		})
		client := paged(t, cms, "custom", source.Part{Path: "rows", Paging: source.Paging{Style: style, Param: "p", PastEnd: 404}})
		first := mustFetch(t, client, shape.Banners)
		if first.Validators != (Validators{}) || first.Document.Items != 2 {
			t.Errorf("%s: %d items, %+v", style, first.Document.Items, first.Validators)
		}
		second.Store("[" + bannerList(3, 1) + "]")
		got, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: first.Validators})
		if err != nil || got.Document.Items != 3 {
			t.Errorf("%s: %d items, %v", style, got.Document.Items, err)
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

func TestPagedListHasNoValidators(t *testing.T) {
	cms := upstreamtest.New(t)
	pages(cms, "/gvapp/singlebanner", drfPages(3, pageLink, bannerList(1, 2), bannerList(3, 1)))
	client := newClient(t, cms.URL, nil)
	if got := mustFetch(t, client, shape.Banners); got.Validators != (Validators{}) || got.Attempts != 2 {
		t.Errorf("validators %+v after %d attempts", got.Validators, got.Attempts)
	}
	pages(cms, "/gvapp/singlebanner", drfPages(2, pageLink, bannerList(1, 2)))
	first := mustFetch(t, client, shape.Banners)
	if first.Validators.ETag == "" {
		t.Error("a list of one page has none")
	}
	second, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: first.Validators})
	if err != nil || !second.NotModified {
		t.Errorf("%+v, %v; want the copy confirmed", second, err)
	}
}

// A proxy, a renamed route or a lost permission can answer so in the middle of a list.
func TestAnErrorOnALaterPageIsNotTheEndUnlessPagingSaysSo(t *testing.T) {
	for code, hint := range map[int]string{400: " (paging.past_end: 400, if the list ends so)", 404: " (paging.past_end: 404, if the list ends so)", 503: ""} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/rows", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("page") != "1" {
				w.WriteHeader(code)
				return
			}
			upstreamtest.JSON("["+bannerList(1, 2)+"]").ServeHTTP(w, r)
		}))
		paging := source.Paging{Style: source.PagingPage, Param: "page"}
		_, err := ids(t, paged(t, cms, "custom", source.Part{Path: "rows", Paging: paging}))
		wantError(t, err, ErrAnswer, fmt.Sprintf("GET %s/rows (page 2): status %d for ?page=2%s", cms.URL, code, hint))
		if hint == "" {
			continue
		}
		paging.PastEnd = code
		if got, err := ids(t, paged(t, cms, "custom", source.Part{Path: "rows", Paging: paging})); err != nil || len(got) != 2 {
			t.Errorf("%d: %v, %v", code, got, err)
		}
	}
}
