package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"vitrine/upstream/exchange"
	"vitrine/upstream/list"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// What an operator can say about a CMS that no preset covers.

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
	part := list.Part{
		Path: "graphql", Items: ".data.banners.nodes",
		Body:   list.Body{Value: map[string]any{"query": "query($after: String, $n: Int) {…}", "variables": map[string]any{"lang": "nl"}}},
		Paging: list.Paging{Style: list.PagingCursor, Param: "variables.after", SizeParam: "variables.n", Size: 2, Next: ".data.banners.end"},
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
	mustFetch(t, paged(t, cms, "custom", list.Part{Path: "graphql", Items: ".data.banners.nodes", Body: list.Body{Text: "*[_type == 'banner']"}}), shape.Banners)
	if len(bodies) != 1 || bodies[0] != "POST text/plain; charset=utf-8 *[_type == 'banner']" {
		t.Errorf("posted %q", bodies)
	}
	_, err := paged(t, cms, "custom", list.Part{Path: "gone", Body: list.Body{Text: "x"}}).Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrAnswer, "POST "+cms.URL+"/gone: status 404, an HTML page")
}

func TestWhatIsMeantForTheCMSGoesToNoOtherServer(t *testing.T) {
	cms, other := upstreamtest.New(t), upstreamtest.New(t)
	other.HandlePath("/x/banners", upstreamtest.JSON("["+bannerList(1, 1)+"]"))
	client := newClient(t, cms.URL, func(o *Options) {
		o.Authorization = "Bearer of the CMS"
		o.Shared = list.Shared{Headers: map[string]string{"X-Key": "of the CMS", "X-Shared": "of the CMS"}, Query: map[string][]string{"api_key": {"of the CMS"}}}
		o.Resources = map[shape.Resource]list.Resource{shape.Banners: {Parts: []list.Part{{
			Path: "banners", URL: other.URL + "/x", Authorization: "Token own", Headers: map[string]string{"X-Own": "yes"},
		}}}}
	})
	mustFetch(t, client, shape.Banners)
	got := other.Last()
	if h := got.Header; h.Get("Authorization") != "Token own" || h.Get("X-Own") != "yes" || h.Get("X-Key")+h.Get("X-Shared")+got.Query != "" {
		t.Errorf("%+v", got)
	}
	mustFetch(t, client, shape.Rules)
	if got := cms.Last(); got.Header.Get("Authorization") != "Bearer of the CMS" || got.Header.Get("X-Shared") == "" || got.Query != "api_key=of+the+CMS" {
		t.Errorf("%+v", got)
	}
}

// tokens is an authorization server that gives out token after token, and a CMS that takes the
// latest.
type tokens struct {
	mu     sync.Mutex
	issued int
	forms  []string
}

func (s *tokens) serve(cms *upstreamtest.CMS) {
	cms.HandlePath("/token", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = req.ParseForm()
		user, password, _ := req.BasicAuth()
		s.forms = append(s.forms, fmt.Sprint(user, password, req.PostForm))
		if password != "hush" {
			upstreamtest.JSON("").ServeHTTP(w, req)
			return
		}
		s.issued++
		upstreamtest.JSON(fmt.Sprintf(`{"access_token":"t%d","token_type":"bearer","expires_in":3600}`, s.issued)).ServeHTTP(w, req)
	}))
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if req.Header.Get("Authorization") != fmt.Sprintf("Bearer t%d", s.issued) {
			upstreamtest.Status(http.StatusUnauthorized).ServeHTTP(w, req)
			return
		}
		upstreamtest.JSON("["+bannerList(1, 1)+"]").ServeHTTP(w, req)
	}))
}

func TestLoginYieldsATokenThatIsRenewedWhenItIsRefused(t *testing.T) {
	cms := upstreamtest.New(t)
	server := new(tokens)
	server.serve(cms)
	client := newClient(t, cms.URL, func(o *Options) {
		o.Shared = list.Shared{Login: &exchange.Login{TokenURL: cms.URL + "/token", ClientID: "vitrine", ClientSecret: "hush", Scopes: []string{"read"}}}
	})
	for range 3 {
		mustFetch(t, client, shape.Banners)
	}
	if server.issued != 1 || !strings.Contains(server.forms[0], "grant_type:[client_credentials] scope:[read]") {
		t.Errorf("%d tokens: %v", server.issued, server.forms)
	}
	server.mu.Lock()
	server.issued++ // and so the one that is held is refused
	server.mu.Unlock()
	if got := mustFetch(t, client, shape.Banners); got.Attempts != 1 || server.issued != 3 {
		t.Errorf("%d attempts, %d tokens", got.Attempts, server.issued)
	}
	wrong := newClient(t, cms.URL, func(o *Options) {
		o.Shared = list.Shared{Login: &exchange.Login{TokenURL: cms.URL + "/token", ClientID: "vitrine", ClientSecret: "wrong"}}
	})
	cms.HandlePath("/token", upstreamtest.JSON(`{"error":"invalid_client","error_description":"wrong"}`, "Content-Type", "application/json"))
	_, err := wrong.Fetch(t.Context(), shape.Banners, Validators{})
	if err == nil || strings.Contains(err.Error(), "wrong") || !strings.Contains(err.Error(), ": log in: ") {
		t.Errorf("%v", err)
	}
}

func TestTotalsInHeadersAndJSONUnderAnotherTypeCanBeSaid(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/v1/rows", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := map[string]string{"1": bannerList(1, 2), "2": bannerList(3, 1)}[req.URL.Query().Get("p")]
		upstreamtest.JSON("["+body+"]", "X-Count", "3", "Content-Type", "application/vnd.cms.v1; charset=utf-8").ServeHTTP(w, req)
	}))
	part := list.Part{
		Path: "v1/rows", AcceptTypes: []string{"application/vnd.cms.v1"},
		Paging: list.Paging{Style: list.PagingPage, Param: "p", TotalHeader: "X-Count"},
	}
	wantIDs(t, paged(t, cms, "custom", part), "[1 2 3]")
	if got := cms.Requests(); len(got) != 2 || got[0].Header.Get("Accept") != "application/json, application/vnd.cms.v1" {
		t.Errorf("%+v", got)
	}
	part.Paging.TotalHeader = "X-Total"
	wantRefusal(t, paged(t, cms, "custom", part), `banners: want a number of items in the header X-Total, got ""`)
	part.AcceptTypes = nil
	wantRefusal(t, paged(t, cms, "custom", part), `want JSON, got Content-Type "application/vnd.cms.v1"`)
}

func TestDetailsAreAskedForOneByOne(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON(`[{"key":"a/b"},{"key":"c"}]`))
	for path, id := range map[string]int{"/rows/a/b": 1, "/rows/c": 2} {
		cms.HandlePath(path, upstreamtest.JSON(fmt.Sprintf(`{"row":{"id":%d,"title_en":"x"}}`, id)))
	}
	part := list.Part{Path: "rows", ID: ".key", Detail: &list.Detail{Path: "rows/{id}", Item: ".row"}, Map: ".title_en += \"!\""}
	client := paged(t, cms, "custom", part)
	wantIDs(t, client, "[1 2]")
	got := mustFetch(t, client, shape.Banners)
	if got.Pages != 3 || got.Attempts != 3 || !strings.Contains(string(got.Document.Body), `"title_en":"x!"`) {
		t.Errorf("%d pages, %d attempts: %s", got.Pages, got.Attempts, got.Document.Body)
	}
	part.Detail.Most = 1
	wantRefusal(t, paged(t, cms, "custom", part), "banners: want at most 1 items to request one by one (detail.most), got more")
	part.Detail.Most = 0
	cms.HandlePath("/rows/c", upstreamtest.Status(404))
	_, err := ids(t, paged(t, cms, "custom", part))
	wantError(t, err, ErrAnswer, "GET "+cms.URL+"/rows/c: status 404")
}

func TestDefinitionsAndMediaAreSharedByAllPrograms(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/rows", upstreamtest.JSON(`[{"key":"7","img":"/m/a b.jpg"},{"key":"8","img":"https://cdn.example/x"},{"key":"9","img":null}]`))
	shared := list.Shared{Def: "def key: .key | tonumber;\ndef link(f): f | media;", Media: "https://cms.example/files/"}
	client := newClient(t, cms.URL, func(o *Options) {
		o.Shared, o.Preset = shared, "custom"
		o.Resources = map[shape.Resource]list.Resource{
			shape.Catalogue: {Empty: true}, shape.Rules: {Empty: true},
			shape.Banners: {Parts: []list.Part{{Path: "rows", Map: "{id: key,\n redirect_link_en: link(.img)}"}}},
		}
	})
	var got []struct {
		ID   int
		Link string `json:"redirect_link_en"`
	}
	if err := json.Unmarshal(mustFetch(t, client, shape.Banners).Document.Body, &got); err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(got); s != "[{7 https://cms.example/m/a%20b.jpg} {8 https://cdn.example/x} {9 }]" {
		t.Error(s)
	}
	cms.HandlePath("/rows", upstreamtest.JSON(`[{"key":"x","img":1}]`))
	wantRefusal(t, client, `banners[0]: upstream.resources.banners.parts[0].map, line 1 ({id: key, redirect_link_en: link(.img)}): tonumber cannot be applied to "x": invalid number`)
	for r, want := range map[shape.Resource]string{shape.Catalogue: `{"artist":[],"artwork":[],"gallery":[]}`, shape.Rules: "[]"} {
		got := mustFetch(t, client, r)
		if string(got.Document.Body) != want || got.Document.Repairs.Total() != 0 || got.Attempts != 0 {
			t.Errorf("%s: %s", r, got.Document.Body)
		}
	}
	for def, says := range map[string]string{
		"def f: nosuch;":  "upstream shared.def: def f: nosuch; .: function not defined: nosuch/0",
		"def f: 1; def g": `upstream shared.def: `,
	} {
		_, err := New(Options{URL: cms.URL, Shared: list.Shared{Def: def}})
		if err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
