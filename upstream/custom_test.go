package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestBodyMakesAPOSTWithPagingInsideOfIt(t *testing.T) {
	cms := upstreamtest.New(t)
	var bodies []string
	cms.HandlePath("/graphql", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		bodies = append(bodies, req.Method+" "+req.Header.Get("Content-Type")+" "+string(raw))
		answer := `{"data":{"banners":{"nodes":[` + bannerList(3, 1) + `],"end":null}}}`
		if !strings.Contains(string(raw), `"after":"abc"`) {
			answer = `{"data":{"banners":{"nodes":[` + bannerList(1, 2) + `],"end":"abc"}}}`
		}
		upstreamtest.JSON(answer).ServeHTTP(w, req)
	}))
	part := source.Part{
		Path: "graphql", Items: ".data.banners.nodes",
		Body:   source.Body{Value: map[string]any{"query": "query($after: String, $n: Int) {…}", "variables": map[string]any{"lang": "nl"}}},
		Paging: source.Paging{Style: source.PagingCursor, Param: "variables.after", SizeParam: "variables.n", Size: 2, Next: ".data.banners.end"},
	}
	client := paged(t, cms, "custom", part)
	wantIDs(t, client, "[1 2 3]")
	want := []string{
		`POST application/json {"query":"query($after: String, $n: Int) {…}","variables":{"lang":"nl","n":2}}`,
		`POST application/json {"query":"query($after: String, $n: Int) {…}","variables":{"after":"abc","lang":"nl","n":2}}`,
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("posted %q", bodies)
	}
	if got := mustFetch(t, client, shape.Banners); got.Validators != (Validators{}) {
		t.Errorf("validators %+v", got.Validators)
	}
	bodies = nil
	mustFetch(t, paged(t, cms, "custom", source.Part{Path: "graphql", Items: ".data.banners.nodes", Body: source.Body{Text: "*[_type == 'banner']"}}), shape.Banners)
	if len(bodies) != 1 || bodies[0] != "POST text/plain; charset=utf-8 *[_type == 'banner']" {
		t.Errorf("posted %q", bodies)
	}
	_, err := paged(t, cms, "custom", source.Part{Path: "gone", Body: source.Body{Text: "x"}}).Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrAnswer, "POST "+cms.URL+"/gone: status 404, an HTML page")
}

func TestTotalsInHeadersAndJSONOfItsOwnTypeAreRead(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/v1/rows", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := map[string]string{"1": bannerList(1, 2), "2": bannerList(3, 1)}[req.URL.Query().Get("p")]
		upstreamtest.JSON("["+body+"]", "X-Count", "3", "Content-Type", "application/vnd.cms.v1+json; charset=utf-8").ServeHTTP(w, req)
	}))
	part := source.Part{
		Path:   "v1/rows",
		Paging: source.Paging{Style: source.PagingPage, Param: "p", TotalHeader: "X-Count"},
	}
	wantIDs(t, paged(t, cms, "custom", part), "[1 2 3]")
	part.Paging.TotalHeader = "Content-Type"
	wantRefusal(t, paged(t, cms, "custom", part), `banners: want a number of items in the header Content-Type, got "application/vnd.cms.v1+json; charset=ut…`)
}

func TestDefinitionsAndMediaAreSharedByAllPrograms(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON(`[{"key":"7","img":"/m/a b.jpg"},{"key":"8","img":"https://cdn.example/x"},{"key":"9","img":null}]`))
	shared := source.Shared{Def: "def key: .key | tonumber;\ndef link(f): f | media;", Media: "https://cms.example/files/"}
	client := newClient(t, cms.URL, func(o *options) {
		o.Shared, o.Preset = shared, "custom"
		o.Resources = bannersAlone(source.Part{Path: "rows", Map: "{id: key,\n redirect_link_en: link(.img)}"})
	})
	var got []struct {
		ID   int
		Link string `json:"redirect_link_en"`
	}
	testkit.Must(t, json.Unmarshal(mustFetch(t, client, shape.Banners).Document.Body, &got))
	if s := fmt.Sprint(got); s != "[{7 https://cms.example/m/a%20b.jpg} {8 https://cdn.example/x} {9 }]" {
		t.Error(s)
	}
	cms.HandlePath("/rows", upstreamtest.JSON(`[{"key":"x","img":1}]`))
	wantRefusal(t, client, `banners[0]: upstream.resources.banners.parts[0].map: tonumber cannot be applied to "x": invalid number`)
	for r, want := range map[shape.Resource]string{shape.Catalogue: `{"artist":[],"artwork":[],"gallery":[]}`, shape.Rules: "[]"} {
		got := mustFetch(t, client, r)
		if string(got.Document.Body) != want || got.Document.Repairs.Total() != 0 || got.Attempts != 0 {
			t.Errorf("%s: %s", r, got.Document.Body)
		}
	}
	for def, says := range map[string]string{
		"def f: nosuch;":        "upstream.shared.def: line 1 (def f: nosuch;): function not defined: nosuch/0",
		"def f: 1; def g":       "upstream.shared.def: line 1 (def f: 1; def g): unexpected ",
		"def f: 1;\ndef g: 2\n": "upstream.shared.def: line 2 (def g: 2): unexpected ",
	} {
		_, err := New(options{Options: Options{URL: cms.URL, Shared: source.Shared{Def: def}}}.complete(t))
		if err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestWhatDependsOnTheTimeIsNotAskedForConditionally(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"same"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = fmt.Fprintf(w, `[{"id":1,"from":0},{"id":2,"from":%d}]`, time.Now().Add(time.Second).Unix())
	}))
	for program, conditional := range map[string]bool{
		`select(.from <= now)`: false, `select(.now == null)`: true, `if .id > 0 and (now > 0) then . else empty end`: false,
	} {
		client := paged(t, cms, "custom", source.Part{Path: "rows", Map: program})
		first := mustFetch(t, client, shape.Banners)
		if first.Validators.ETag == "" == conditional {
			t.Errorf("%s: validators %v", program, first.Validators)
		}
		second, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: Validators{ETag: `"same"`}}) // kept from before
		if err != nil || second.NotModified != conditional {
			t.Errorf("%s: not modified %v, %v", program, second.NotModified, err)
		}
	}
}

// TestALinkOfAPostedListIsPosted has the body on each page.
func TestALinkOfAPostedListIsPosted(t *testing.T) {
	var asked []string
	client := newClient(t, "http://cms", func(o *options) {
		o.Preset = "custom"
		o.Transport = jsonCMS(func(req *http.Request) (int, string) {
			sent := ""
			if req.Body != nil {
				raw, _ := io.ReadAll(req.Body)
				sent = string(raw)
			}
			asked = append(asked, req.Method+" ?"+req.URL.RawQuery+" "+sent)
			body := fmt.Sprintf(`{"items":[{%s}],"next":null}`, bannerOf(len(asked), "a"))
			if len(asked) == 1 {
				body = strings.Replace(body, "null", `"?page=2"`, 1)
			}
			return http.StatusOK, body
		})
		o.Resources = bannersAlone(source.Part{
			Path: "banners?lang=nl", Items: ".items", Body: source.Body{Value: map[string]any{"q": 1}},
			Paging: source.Paging{Style: source.PagingLink, Next: ".next"},
		})
	})
	mustFetch(t, client, shape.Banners)
	if got, want := strings.Join(asked, "\n"), "POST ?lang=nl {\"q\":1}\nPOST ?page=2 {\"q\":1}"; got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}
