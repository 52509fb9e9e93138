package upstream

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestAnswerMustBeJSONInUTF8(t *testing.T) {
	for _, c := range []struct{ contentType, suffix string }{
		{"application/json", ""},
		{"application/json; charset=utf-8", ""},
		{`Application/JSON;Charset="UTF-8"`, ""},
		{"application/json; charset=us-ascii", ""},
		{"application/vnd.api+json", ""},
		{"text/json", ""},
		{"application/json; charset=iso-8859-1", `want UTF-8, got charset "iso-8859-1"`},
		{"application/json; charset=utf-16", `want UTF-8, got charset "utf-16"`},
		{"text/html; charset=utf-8", "want JSON, got an HTML page (text/html)"},
		{"application/xhtml+xml", "want JSON, got an HTML page (application/xhtml+xml)"},
		{"text/plain", `want JSON, got Content-Type "text/plain"`},
		{"application/jsonp", `want JSON, got Content-Type "application/jsonp"`},
		{"json", `want JSON, got Content-Type "json"`},
		{"", "want JSON, got an answer without a Content-Type"},
		{"application/json; charset", `want JSON, got an unreadable Content-Type "application/json; charset"`},
		{"text/" + strings.Repeat("x", 500), `want JSON, got Content-Type "text/` + strings.Repeat("x", 75) + `…"`},
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Banners, upstreamtest.JSON("[]", "Content-Type", c.contentType))
		got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Held{})
		if c.suffix == "" {
			if err != nil || string(got.Document.Body) != "[]" {
				t.Errorf("%s: %s, %v", c.contentType, got.Document.Body, err)
			}
			continue
		}
		wantError(t, err, ErrAnswer, "fetch banners: GET "+cms.URL+"/gvapp/singlebanner: "+c.suffix)
		if cms.Count(shape.Banners) != 1 {
			t.Errorf("%s: asked %d times", c.contentType, cms.Count(shape.Banners))
		}
	}
}

func TestBodyCutShortIsRetriedAndThenRefused(t *testing.T) {
	const body = `[{"id":1,"title_en":"A banner"}]`
	whole := packed(t, body)
	for name, h := range map[string]http.Handler{
		"announced length":   upstreamtest.Truncated(body, 10),
		"no length at all":   unframed(body[:10]),
		"nothing at all":     unframed(""),
		"one bracket":        unframed("["),
		"compressed, cut":    raw(whole[:len(whole)-4]),
		"compressed, begun":  raw(whole[:5]),
		"compressed, broken": raw(append(slices.Clone(whole[:len(whole)-8]), "\x00\x00\x00\x00\x00\x00\x00\x00"...)),
		"not compressed":     raw([]byte(body)),
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			client := newClient(t, cms.URL, nil)
			cms.Next(h)
			if got := mustFetch(t, client, shape.Banners); got.Attempts != 2 || len(got.Document.Body) < 1000 {
				t.Errorf("%d attempts, %d bytes; want the second attempt's", got.Attempts, len(got.Document.Body))
			}
			cms.Handle(shape.Banners, h)
			got, err := client.Fetch(t.Context(), shape.Banners, Held{})
			wantError(t, err, ErrAnswer, "")
			if !strings.Contains(err.Error(), ": the body is cut short or damaged: ") || got.Attempts != 3 {
				t.Errorf("%v after %d attempts", err, got.Attempts)
			}
		})
	}
}

// raw sends body as if it were compressed.
func raw(body []byte) http.Handler {
	return upstreamtest.JSON(string(body), "Content-Encoding", "gzip")
}

func packed(t *testing.T, body string) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	testkit.Write(t, zw, body)
	testkit.Must(t, zw.Close())
	return out.Bytes()
}

// unframed sends body without its length: it ends with the connection, so that a body cut short
// looks complete.
func unframed(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // HTTP/1 over TCP can always be taken over
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
		_ = rw.Flush()
	})
}

func TestPagesWithStatus200AreToldForWhatTheyAre(t *testing.T) {
	const page, login = "<!doctype html><title>Maintenance</title>", `<html><form><input TYPE="password"></form>`
	for _, c := range []struct{ body, contentType, says string }{
		{page, "text/html", "want JSON, got an HTML page (text/html)"},
		{login, "text/html", "want JSON, got an HTML page with a login form (text/html)"},
		{page, "application/json", "want JSON, got an HTML page that says it is JSON"},
		{"\n " + login, "application/json", "want JSON, got an HTML page with a login form that says it is JSON"},
		{`{"detail":"Not found."}`, "application/json", "want a document, got an error with status 200"},
		{`{"error":"maintenance"}`, "application/json", "want a document, got an error with status 200 (maintenance)"},
		{`{"error":{"code":"E_DOWN"}}`, "application/json", "want a document, got an error with status 200 (E_DOWN)"},
		{`{"error":"We are\nback soon <b>"}`, "application/json", "want a document, got an error with status 200"},
		{`{"data":null,"errors":[{"message":"x"}]}`, "application/json", "want a document, got an error with status 200"},
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Catalogue, upstreamtest.JSON(c.body, "Content-Type", c.contentType))
		got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Catalogue, Held{})
		wantError(t, err, ErrAnswer, ": "+c.says)
		if v := exchange.Judge(err); !v.Trips || got.Attempts != 1 {
			t.Errorf("%s: %+v after %d attempts", c.body, v, got.Attempts)
		}
	}
}

func TestDocumentsThatSpeakOfErrorsAreNoErrors(t *testing.T) {
	for _, body := range []string{
		`{"artist":[],"artwork":[],"gallery":[],"error":null}`,
		`{"artist":[],"artwork":[],"gallery":[],"errors":[]}`,
		`{"artist":[],"artwork":[],"gallery":[],"detail":"of what is shown"}`,
		`{"artist":[],"artwork":[],"gallery":[],"code":"nl","message":"welcome"}`,
	} {
		cms := upstreamtest.New(t)
		cms.Set(shape.Catalogue, body)
		mustFetch(t, newClient(t, cms.URL, nil), shape.Catalogue)
	}
}

func TestListThatBecomesEmptyIsServedAndToldUntilItIsNot(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	first := mustFetch(t, client, shape.Catalogue)
	if len(first.Suspicions) != 0 {
		t.Errorf("a first document is suspicious: %v", first.Suspicions)
	}
	cms.Set(shape.Catalogue, `{"artist":[{"id":1,"gallery_artists":null}],"artwork":[],"gallery":[]}`)
	got := mustFetchAfter(t, client, shape.Catalogue, first)
	want := []Suspicion{{Kind: Emptied, Path: "catalogue.artwork", Count: 8}, {Kind: Emptied, Path: "catalogue.gallery", Count: 4}}
	if !slices.Equal(got.Suspicions, want) || got.Document.Items != 1 {
		t.Errorf("%v with %d items, want %v", got.Suspicions, got.Document.Items, want)
	}
	if text := got.Suspicions[0].String(); text != "catalogue.artwork: empty now, had 8 items before" {
		t.Error(text)
	}
	if got = mustFetchAfter(t, client, shape.Catalogue, got); !slices.Equal(got.Suspicions, want) {
		t.Errorf("then %v, want %v", got.Suspicions, want)
	}
	cms.Set(shape.Catalogue, `{"artist":[],"artwork":[{"id":1}],"gallery":[]}`)
	want = []Suspicion{{Kind: Emptied, Path: "catalogue.artist", Count: 1}, {Kind: Emptied, Path: "catalogue.gallery", Count: 4}}
	if again := mustFetchAfter(t, client, shape.Catalogue, got); !slices.Equal(again.Suspicions, want) {
		t.Errorf("then %v, want %v", again.Suspicions, want)
	}
}

func TestListIsNotMissedThatNothingSaysWasFull(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Set(shape.Rules, `[]`)
	for _, held := range []string{"", `not a document`, `[]`} {
		got, err := client.Fetch(t.Context(), shape.Rules, Held{Body: []byte(held)})
		if err != nil || len(got.Suspicions) != 0 {
			t.Errorf("%q: %v, %v", held, got.Suspicions, err)
		}
	}
}

// mustFetchAfter fetches what follows a document.
func mustFetchAfter(t *testing.T, c *Client, r shape.Resource, before Result) Result {
	t.Helper()
	got, err := c.Fetch(t.Context(), r, Held{Body: before.Document.Body, Suspicions: before.Suspicions})
	testkit.Must(t, err)
	return got
}
