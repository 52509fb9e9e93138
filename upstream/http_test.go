package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/outbound"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestBaseURLMayHaveAPathAndATrailingSlash(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/api/v1/gvapp/singlebanner", upstreamtest.JSON("[]"))
	cms.HandlePath("/a b/gvapp/singlebanner", upstreamtest.JSON("[]"))
	for base, want := range map[string]string{
		"":          "/gvapp/singlebanner",
		"/":         "/gvapp/singlebanner",
		"/api/v1":   "/api/v1/gvapp/singlebanner",
		"/api/v1/":  "/api/v1/gvapp/singlebanner",
		"/api//v1/": "/api/v1/gvapp/singlebanner",
		"/a%20b":    "/a b/gvapp/singlebanner",
	} {
		mustFetch(t, newClient(t, cms.URL+base, nil), shape.Banners)
		if got := cms.Last().Path; got != want {
			t.Errorf("base %q: asked for %s, want %s", base, got, want)
		}
	}
}

func TestPathsMayBeSetWithTheirQuery(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/banners", upstreamtest.JSON(`{"nobody": "fetches this"}`))
	client := newClient(t, cms.URL, func(o *options) {
		o.Resources = map[shape.Resource]source.Resource{shape.Banners: {Parts: []source.Part{{Path: "/banners?key=hush&limit=-1"}}}}
	})
	_, err := client.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrAnswer, "")
	if got := cms.Last(); got.Path != "/banners" || got.Query != "key=hush&limit=-1" {
		t.Errorf("asked for %s?%s", got.Path, got.Query)
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("the error tells the query: %v", err)
	}
	mustFetch(t, client, shape.Rules) // has kept its own path
}

func TestRequestSaysWhatIsAccepted(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, func(o *options) {
		o.Authorization = "Bearer abc"
		o.Shared.Headers = map[string]string{"X-Site": "nl", "user-agent": "vitrine/1.2"}
	})
	result := mustFetch(t, client, shape.Catalogue)
	got := cms.Last()
	if id := ParseTrace(got.Header.Get("Traceparent"), "").ID(); id == "" || id != result.TraceID {
		t.Errorf("sent the trace %q, want a new one, %s", id, result.TraceID)
	}
	for name, want := range map[string]string{
		"Accept":          "application/json",
		"Accept-Encoding": "gzip",
		"Authorization":   "Bearer abc",
		"X-Site":          "nl",
		"User-Agent":      "vitrine/1.2",
	} {
		if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Cookie"} {
		if got.Header.Get(name) != "" {
			t.Errorf("sent %s: %s", name, got.Header.Get(name))
		}
	}
	if got.Method != http.MethodGet {
		t.Errorf("method %s", got.Method)
	}
}

func TestValidatorsThatAreNoHeadersAreNotSent(t *testing.T) {
	cms := upstreamtest.New(t)
	held := Validators{ETag: "\"a\"\r\nX-Evil: 1", LastModified: strings.Repeat("x", 1<<10+1)}
	got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Held{Validators: held})
	if err != nil || got.NotModified {
		t.Fatal(got.NotModified, err)
	}
	if h := cms.Last().Header; h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != "" || h.Get("X-Evil") != "" {
		t.Errorf("sent %v", h)
	}
	// Nothing was asked, so a 304 is an answer to nothing.
	cms.Fail(304)
	_, err = newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Held{Validators: held})
	wantError(t, err, ErrAnswer, "status 304")
}

func TestValidatorsOfAnAnswerAreGivenBack(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Handle(shape.Banners, upstreamtest.JSON("[]", "Last-Modified", "Tue, 12 Dec 2023 23:15:49 GMT"))
	first := mustFetch(t, client, shape.Banners)
	second, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: first.Validators})
	if err != nil || !second.NotModified || second.Validators != first.Validators || second.Document.Body != nil {
		t.Errorf("%+v, %v; want the copy renewed", second, err)
	}
	if h := cms.Last().Header; h.Get("If-None-Match") != first.Validators.ETag || h.Get("If-Modified-Since") != first.Validators.LastModified {
		t.Errorf("sent %v", h)
	}
	// A 304 that repeats no validators leaves those that were held.
	cms.Fail(304)
	third, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: second.Validators})
	if err != nil || !third.NotModified || third.Validators != first.Validators {
		t.Errorf("%+v, %v; want the validators kept", third, err)
	}
	cms.Recover()
	cms.Set(shape.Banners, "[ ]")
	fourth, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: third.Validators})
	if err != nil || fourth.NotModified || fourth.Validators == first.Validators || fourth.Validators.LastModified != "" {
		t.Errorf("%+v, %v; want a new copy with its own validators", fourth, err)
	}
}

// TestLastModifiedIsAValidatorOnlyWellBeforeDate has a CMS without ETags, in whose seconds two edits
// fit.
func TestLastModifiedIsAValidatorOnlyWellBeforeDate(t *testing.T) {
	const modified = "Tue, 12 Dec 2023 23:15:49 GMT"
	for date, want := range map[string]string{
		modified:                        "",
		"Tue, 12 Dec 2023 23:15:50 GMT": "",
		"Tue, 12 Dec 2023 23:15:51 GMT": modified,
		"Tue, 12 Dec 2023 23:15:40 GMT": "",
		"soon":                          "",
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Banners, upstreamtest.Answer(200, "[]", []string{"Last-Modified", modified, "Date", date}, "Content-Type", "application/json"))
		if got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners); got.Validators.LastModified != want {
			t.Errorf("Date %s: %q, want %q", date, got.Validators.LastModified, want)
		}
	}
}

func TestAFetchThatFollowsAPurgeIsUnconditionalAndPassesCaches(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Set(shape.Banners, "[]")
	client := newClient(t, cms.URL, nil)
	first := mustFetch(t, client, shape.Banners)
	if h := cms.Last().Header; h.Get("Cache-Control") != "" || first.Validators.ETag == "" {
		t.Errorf("sent %v", h)
	}
	_, err := client.Fetch(t.Context(), shape.Banners, Held{Validators: first.Validators, Purged: true})
	testkit.Must(t, err)
	if h := cms.Last().Header; h.Get("Cache-Control") != "no-cache" || h.Get("If-None-Match")+h.Get("If-Modified-Since") != "" {
		t.Errorf("sent %v", h)
	}
}

func TestTheAgeOfTheOldestPageIsThatOfTheDocument(t *testing.T) {
	for sent, want := range map[string]time.Duration{
		"": 0, "100": 100 * time.Second, " 7 ": 7 * time.Second, "7, 9": 7 * time.Second, "-1": 0, "1.5": 0, "x": 0,
		"99999999999999999999": 365 * 24 * time.Hour,
	} {
		cms := upstreamtest.New(t)
		page := func(age, next, items string) http.Handler {
			return upstreamtest.JSON(`{"count":2,"next":`+next+`,"results":[`+items+`]}`, "Age", age)
		}
		cms.Next(page(sent, `"?page=2"`, `{"id":1}`), page("0", "null", `{"id":2}`))
		if got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners); got.Age != want {
			t.Errorf("%q: %v, want %v", sent, got.Age, want)
		}
	}
	cms := upstreamtest.New(t)
	for path, age := range map[string]string{"/a": "7", "/b": "9", "/c": "8"} {
		cms.HandlePath(path, upstreamtest.JSON("[]", "Age", age))
	}
	parts := source.Resource{Parts: []source.Part{{Name: "artist", Path: "a"}, {Name: "artwork", Path: "b"}, {Name: "gallery", Path: "c"}}}
	if got := mustFetch(t, of(t, cms, "drf", parts), shape.Catalogue); got.Age != 9*time.Second {
		t.Errorf("%v for that of three parts", got.Age)
	}
}

func TestRedirectElsewhereIsRefusedAndCarriesNothing(t *testing.T) {
	elsewhere := upstreamtest.New(t)
	port := elsewhere.URL[strings.LastIndex(elsewhere.URL, ":"):]
	for _, c := range []struct{ location, suffix string }{
		{elsewhere.URL + "/gvapp/", "status 302: redirected to another host, scheme or port"},
		{"http://localhost" + port + "/?next=hush", "status 302: redirected to another host, scheme or port"},
		{strings.Replace(elsewhere.URL, "//", "//user:hush@", 1), "status 302: redirected to a URL with a user in it"},
		{"//" + elsewhere.URL[len("http://"):] + "/", "status 302: redirected to another host, scheme or port"},
		{"https://127.0.0.1" + port, "status 302: redirected to another host, scheme or port"},
		{"ftp://127.0.0.1/hush", "status 302: redirected to another host, scheme or port"},
		{"http://%zz.hush/", "status 302, an HTML page"},
		{"", "status 302, an HTML page"},
		{"/gvapp/", "status 302: more than 5 redirects"},
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Catalogue, redirect(302, c.location))
		client := newClient(t, cms.URL, func(o *options) { o.Authorization = "Bearer abc" })
		got, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
		wantError(t, err, ErrAnswer, "fetch catalogue: GET "+cms.URL+"/gvapp/: "+c.suffix)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error tells too much: %v", err)
		}
		if n := len(cms.Requests()); got.Attempts != 1 || n > 6 {
			t.Errorf("%s: %d attempts, %d requests", c.location, got.Attempts, n)
		}
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestAPostIsNotRedirectedToAGet has a redirect that net/http would follow with another method, and
// whose answer is another list.
func TestAPostIsNotRedirectedToAGet(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/q", http.RedirectHandler("/q/", status))
		cms.HandlePath("/q/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			raw, _ := io.ReadAll(req.Body)
			id := map[string]int{"GET ": 1, "POST x": 2}[req.Method+" "+string(raw)]
			upstreamtest.JSON("["+bannerList(id, 1)+"]").ServeHTTP(w, req)
		}))
		client := paged(t, cms, "custom", source.Part{Path: "q", Body: source.Body{Text: "x"}})
		if status < 307 {
			wantRefusal(t, client, fmt.Sprintf("status %d: redirected from POST to GET", status))
		} else {
			wantIDs(t, client, "[2]")
		}
	}
}

func TestRedirectFromHTTPToHTTPSOfTheSameHostIsFollowedAndNotBack(t *testing.T) {
	var mu sync.Mutex
	var secured []*http.Request
	plain := upstreamtest.New(t)
	plain.Handle(shape.Banners, redirect(301, "https://example.com/gvapp/singlebanner"))
	tls := newTLS(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if req.URL.Path == shape.Rules.Route() {
			redirect(302, "http://example.com/cms/rules/").ServeHTTP(w, req)
			return
		}
		secured = append(secured, req)
		upstreamtest.JSON("[]").ServeHTTP(w, req)
	}))
	client := func(base string) *Client {
		return newClient(t, base, func(o *options) {
			o.Authorization = "Bearer abc"
			o.Transport = dialing(t, tls.Client(), map[string]string{"example.com:80": plain.URL, "example.com:443": tls.URL})
		})
	}
	mustFetch(t, client("http://example.com"), shape.Banners)
	mu.Lock()
	if len(secured) != 1 || secured[0].Header.Get("Authorization") != "Bearer abc" || secured[0].ProtoMajor != 1 {
		t.Errorf("over https came %v", secured)
	}
	mu.Unlock()
	_, err := client("https://example.com").Fetch(t.Context(), shape.Rules, Held{})
	wantError(t, err, ErrAnswer, "status 302: redirected to another host, scheme or port")
	if n := len(plain.Requests()); n != 1 {
		t.Errorf("%d requests without TLS", n)
	}
}

// A server behind a balancer may hang, or a firewall forget a connection.
func TestAConnectionOnWhichNothingComesIsNotUsedAgain(t *testing.T) {
	var first atomic.Pointer[string]
	tls := newTLS(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if first.CompareAndSwap(nil, &req.RemoteAddr) || *first.Load() == req.RemoteAddr {
			<-req.Context().Done()
			panic(http.ErrAbortHandler) // a return would be an empty response
		}
		upstreamtest.JSON("[]").ServeHTTP(w, req)
	}))
	client := newClient(t, "https://example.com", func(o *options) {
		o.Timeout = 300 * time.Millisecond
		o.Transport = dialing(t, tls.Client(), map[string]string{"example.com:443": tls.URL})
	})
	_, err := client.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrTimeout, "no complete response within 300ms")
	mustFetch(t, client, shape.Banners)
}

// dialing is a transport that connects to other addresses, as a resolver would have it, and accepts
// the certificates that other accepts.
func dialing(t *testing.T, other *http.Client, hosts map[string]string) *http.Transport {
	t.Helper()
	theirs, ok := other.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("a %T", other.Transport)
	}
	transport := outbound.New(8)
	transport.TLSClientConfig = theirs.TLSClientConfig.Clone()
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		u, err := url.Parse(hosts[addr])
		if err != nil || u.Host == "" {
			return nil, errors.New("no such host: " + addr)
		}
		return new(net.Dialer).DialContext(ctx, network, u.Host)
	}
	return transport
}

func TestFailureLeavesTheConnectionsOfOthersOpen(t *testing.T) {
	cms := upstreamtest.New(t)
	dials := 0
	dialer := new(net.Dialer)
	transport := outbound.New(8)
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return dialer.DialContext(ctx, network, addr)
	}
	client := newClient(t, cms.URL, func(o *options) { o.Transport = transport })
	mustFetch(t, client, shape.Banners)
	cms.FailNext(4, 503)
	_, err := client.Fetch(t.Context(), shape.Rules, Held{})
	wantError(t, err, ErrAnswer, "status 503")
	mustFetch(t, client, shape.Banners)
	if dials != 1 {
		t.Errorf("%d connections for one fetch after the other, want 1", dials)
	}
}

// redirect answers with a Location as it is, which need not be a URL.
func redirect(code int, location string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Location", location)
		w.WriteHeader(code)
	})
}
