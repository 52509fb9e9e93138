package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"vitrine/cmd/testkit"
)

// A page is open in a browser, at its own origin.
type page struct {
	origin string
	ctx    context.Context
}

// openBrowser starts a headless Chromium until the test ends, and returns a function that opens
// pages in it.
func openBrowser(t *testing.T) (open func() page) {
	t.Helper()
	program := browserTool.path(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 { // root cannot use the sandbox
		options = append(options, chromedp.NoSandbox)
	}
	// Not t.Context(), which ends before the browser is closed.
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	allocator, stop := chromedp.NewExecAllocator(limited, options...)
	browser, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closeBrowser()
		stop()
		cancel()
	})
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	return func() page {
		t.Helper()
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!doctype html><title>front-end</title>") // the browser may be gone
		}))
		t.Cleanup(site.Close)
		tab, closeTab := chromedp.NewContext(browser)
		t.Cleanup(closeTab)
		testkit.Must(t, chromedp.Do(tab, chromedp.Navigate(site.URL)))
		return page{origin: site.URL, ctx: tab}
	}
}

// A fetched is a response as a page sees it.
type fetched struct {
	Status  int
	Type    string            // cors, when it was read across origins
	Headers map[string]string // those that the page can read
	Body    string
	Error   string // why there is no response
}

// fetch lets the page fetch url. The options are those of fetch(), as JSON.
func (p page) fetch(t *testing.T, url, options string) fetched {
	t.Helper()
	script := fmt.Sprintf(`(async () => {
		try {
			const r = await fetch(%q, %s);
			return JSON.stringify({Status: r.status, Type: r.type, Headers: Object.fromEntries(r.headers), Body: await r.text()});
		} catch (e) {
			return JSON.stringify({Error: String(e)});
		}
	})()`, url, options)
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	testkit.Must(t, err)
	var got fetched
	testkit.Must(t, json.Unmarshal([]byte(text), &got))
	return got
}

// methods are those of the requests that reached vitrine.
func methods(all []exchange) string {
	var names []string
	for _, x := range all {
		names = append(names, x.Method+" "+x.status)
	}
	return strings.Join(names, ", ")
}

func TestAPageOfAnotherOriginFetchesAllRoutes(t *testing.T) {
	v := startVitrine(t, nil, browserTool)
	front := openBrowser(t)()
	for r, path := range routes {
		url := "http://" + v.Addr + path
		got := front.fetch(t, url, `{}`)
		if got.Status != 200 || got.Type != "cors" || !json.Valid([]byte(got.Body)) || got.Body == "" {
			t.Fatalf("%s: %+v", r, got)
		}
		for _, name := range []string{"etag", "age", "cache-status"} {
			if got.Headers[name] == "" {
				t.Errorf("%s: the page cannot read %s of %v", r, name, got.Headers)
			}
		}
		if asked := v.log.take(); methods(asked) != "GET 200" {
			t.Errorf("%s: a simple request takes %s", r, methods(asked))
		}

		// The browser revalidates its own copy, and the page sees that copy.
		again := front.fetch(t, url, `{"cache": "no-cache"}`)
		if asked := v.log.take(); methods(asked) != "GET 304" || asked[0].Header.Get("If-None-Match") != got.Headers["etag"] {
			t.Errorf("%s: revalidating takes %s", r, methods(asked))
		}
		if again.Status != 200 || again.Body != got.Body || again.Headers["etag"] != got.Headers["etag"] {
			t.Errorf("%s: after revalidation %d, %d bytes, %v", r, again.Status, len(again.Body), again.Headers)
		}

		// The page keeps the copy itself: its conditional request needs a preflight, and it sees
		// the 304.
		options := fmt.Sprintf(`{"cache": "no-store", "headers": {"If-None-Match": %q}}`, got.Headers["etag"])
		own := front.fetch(t, url, options)
		if asked := v.log.take(); own.Status != 304 || own.Body != "" || own.Headers["etag"] != got.Headers["etag"] || methods(asked) != "OPTIONS 204, GET 304" {
			t.Errorf("%s: the page's own condition: %+v by %s", r, own, methods(asked))
		}
	}
}

func TestAPageMaySendAHeaderOfItsOwn(t *testing.T) {
	v := startVitrine(t, nil, browserTool)
	front := openBrowser(t)()
	url := "http://" + v.Addr + "/gvapp/singlebanner?ordering=-id"
	got := front.fetch(t, url, `{"headers": {"X-Front-End": "shop/1.2", "X-Request-Id": "0ea1f9a2"}}`)
	asked := v.log.take()
	if got.Status != 200 || methods(asked) != "OPTIONS 204, GET 200" {
		t.Fatalf("%+v by %s", got, methods(asked))
	}
	if asked[0].Header.Get("Access-Control-Request-Headers") != "x-front-end,x-request-id" || asked[1].Header.Get("X-Front-End") != "shop/1.2" {
		t.Errorf("asked for %v, then sent %v", asked[0].Header, asked[1].Header)
	}
	// The browser caches the preflight.
	again := front.fetch(t, url, `{"headers": {"X-Front-End": "shop/1.3"}}`)
	if asked := methods(v.log.take()); again.Status != 200 || asked != "GET 304" {
		t.Errorf("a second time: %d by %s", again.Status, asked)
	}
	// The browser never sends a method that the preflight does not allow.
	if got := front.fetch(t, url, `{"method": "DELETE"}`); got.Error == "" || methods(v.log.take()) != "OPTIONS 204" {
		t.Errorf("DELETE: %+v", got)
	}
	// Errors are readable too.
	if got := front.fetch(t, "http://"+v.Addr+"/nothing", `{}`); got.Status != 404 || got.Body != `{"detail":"Not found."}` {
		t.Errorf("404: %+v", got)
	}
}

func TestOnlyListedOriginsAreAnswered(t *testing.T) {
	open := openBrowser(t)
	listed, other := open(), open()
	v := startVitrine(t, []string{"VITRINE_CORS_ORIGINS=" + listed.origin, "VITRINE_HTTP_MAX_AGE=1m"})
	url := "http://" + v.Addr + "/cms/rules/"
	if got := other.fetch(t, url, `{}`); got.Error != "TypeError: Failed to fetch" {
		t.Errorf("an origin that is not listed: %+v", got)
	}
	// They share the browser's cache: Vary keeps their responses apart.
	if got := listed.fetch(t, url, `{}`); got.Status != 200 || got.Headers["etag"] == "" {
		t.Errorf("a listed origin: %+v", got)
	}
	if got := other.fetch(t, url, `{"headers": {"X-Front-End": "x"}}`); got.Error != "TypeError: Failed to fetch" {
		t.Errorf("a preflight of an origin that is not listed: %+v", got)
	}
	if got := listed.fetch(t, url, `{"headers": {"X-Front-End": "x"}}`); got.Status != 200 {
		t.Errorf("a preflight of a listed origin: %+v", got)
	}
}
