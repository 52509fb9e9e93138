package upstream

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/guard"
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
		{"application/json; charset", ""},
		{"application/json;", ""},
		{"application/json;;charset=", ""},
		{"application/json; charset=utf-8; charset=UTF-8", ""},
		{"application/json; charset=utf-8, application/json", ""},
		{`application/json; charset="utf-8`, ""},
		{"application/json charset=utf-8", ""},
		{"application/json; =; charset =utf-8", ""},
		{"application/json; charset=utf-16; charset=utf-8", `want UTF-8, got charset "utf-16"`},
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
		{`{"data":[],"error":{"status":403,"name":"ForbiddenError"}}`, "application/json", "want a document, got an error with status 200 (ForbiddenError)"},
		{`{"data":{"banners":null},"errors":[{"message":"x","extensions":{"code":"FORBIDDEN"}}]}`, "application/json", "want a document, got an error with status 200 (FORBIDDEN)"},
		{`{"code":"rest_forbidden","message":"No.","data":{"status":401}}`, "application/json", "want a document, got an error with status 200 (rest_forbidden)"},
		{`{"error":"maintenance","trace":"` + strings.Repeat("x", 70<<10) + `"}`, "application/json", "want a document, got an error with status 200 (maintenance)"},
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
		`{"artist":[],"artwork":[],"gallery":[],"code":"0","message":"OK"}`,
		`{"artist":[],"artwork":[],"gallery":[],"error":""}`,
		`{"artist":[],"artwork":[],"gallery":[],"error":{}}`,
		`{"artist":[],"artwork":[],"gallery":[],"error":{"code":0,"message":"Success"}}`,
		`{"artist":[],"artwork":[],"gallery":[],"error":false,"errors":{}}`,
		`{"artist":[],"artwork":[],"gallery":[],"code":"0","message":"OK","data":{"status":200}}`,
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
	if len(first.Warnings) != 0 {
		t.Errorf("a first document is suspicious: %v", first.Warnings)
	}
	cms.Set(shape.Catalogue, `{"artist":[{"id":1,"gallery_artists":null}],"artwork":[],"gallery":[]}`)
	got := mustFetchAfter(t, client, shape.Catalogue, first)
	want := guard.Findings{emptied("catalogue.artwork", 8), emptied("catalogue.gallery", 4)}
	if !slices.Equal(got.Warnings, want) || got.Document.Items != 1 {
		t.Errorf("%v with %d items, want %v", got.Warnings, got.Document.Items, want)
	}
	if text := got.Warnings[0].Warning(); text != "catalogue.artwork: no artworks, 8 before" {
		t.Error(text)
	}
	if got = mustFetchAfter(t, client, shape.Catalogue, got); !slices.Equal(got.Warnings, want) {
		t.Errorf("then %v, want %v", got.Warnings, want)
	}
	cms.Set(shape.Catalogue, `{"artist":[],"artwork":[{"id":1}],"gallery":[]}`)
	want = guard.Findings{emptied("catalogue.artist", 1), emptied("catalogue.gallery", 4)}
	if again := mustFetchAfter(t, client, shape.Catalogue, got); !slices.Equal(again.Warnings, want) {
		t.Errorf("then %v, want %v", again.Warnings, want)
	}
}

func TestListIsNotMissedThatNothingSaysWasFull(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Set(shape.Rules, `[]`)
	for _, held := range []guard.Survey{nil, {}, {{Path: "rules"}}} {
		got, err := client.Fetch(t.Context(), shape.Rules, Held{Survey: held})
		if err != nil || len(got.Warnings) != 0 {
			t.Errorf("%v: %v, %v", held, got.Warnings, err)
		}
	}
}

func emptied(list string, before int) guard.Finding {
	return guard.Finding{List: list, Kind: guard.Emptied, Before: before, Verdict: guard.Served}
}

// mustFetchAfter fetches what follows a document.
func mustFetchAfter(t *testing.T, c *Client, r shape.Resource, before Result) Result {
	t.Helper()
	got, err := c.Fetch(t.Context(), r, Held{Survey: before.Document.Survey, Warnings: before.Warnings})
	testkit.Must(t, err)
	return got
}

// TestAnEnvelopeThatNamesNoErrorIsRead has short and long ones: neither counts for the other.
func TestAnEnvelopeThatNamesNoErrorIsRead(t *testing.T) {
	for _, around := range []string{
		`{"error":"","items":[…]}`,
		`{"errors":null,"error":{},"items":[…]}`,
		`{"code":"0","message":"OK","data":{"items":[…]}}`,
		`{"code":200,"message":"2 items","data":{"items":[…],"status":200}}`,
		`{"detail":"of all","items":[…]}`,
		`{"error":{"code":"0","message":"Success"},"items":[…]}`,
	} {
		for _, title := range []string{"short", strings.Repeat("long", 20<<10)} {
			cms := upstreamtest.New(t)
			cms.HandlePath("/x", upstreamtest.JSON(strings.Replace(around, "…", `{"id":1,"title_en":"`+title+`"}`, 1)))
			client := paged(t, cms, "custom", source.Part{Path: "x", Items: ".items // .data.items"})
			wantIDs(t, client, "[1]")
		}
	}
}

// TestATextThatIsNotUnicodeCostsNoDocument has each form of it, in a document that is served as it is
// and in one that is mapped.
func TestATextThatIsNotUnicodeCostsNoDocument(t *testing.T) {
	for sent, served := range map[string]string{
		`Fair \ud83d`:                         "Fair \uFFFD",
		`\uDE00 Fair`:                         "\uFFFD Fair",
		`\ud83d\u0041`:                        "\uFFFDA",
		`\ud83d\ud83d\ude00`:                  "\uFFFD😀",
		"caf\xe9":                             "caf\uFFFD",
		"\xed\xa0\xbd":                        "\uFFFD\uFFFD\uFFFD",
		"\xc3\" ,\"title_nl\":\"\xa9\xf0\x9f": "\uFFFD",
		`\\ud83d`:                             `\\ud83d`,
		`\ud83d\ude00`:                        "😀",
	} {
		body := `{"results":[{"id":1,"title_en":"Spring"},{"id":2,"title_en":"` + sent + `"},{"id":3}]}`
		for preset, body := range map[string]string{"drf": body[len(`{"results":`) : len(body)-1], "custom": body} {
			cms := upstreamtest.New(t)
			cms.HandlePath("/x", upstreamtest.JSON(body))
			client := paged(t, cms, preset, source.Part{Path: "x", Items: map[string]string{"drf": "", "custom": ".results"}[preset]})
			got := mustFetch(t, client, shape.Banners)
			if got.Document.Items != 3 || !strings.Contains(string(got.Document.Body), `"title_en":"`+served+`"`) {
				t.Errorf("%s %q: %s", preset, sent, got.Document.Body)
			}
			repairs := got.Document.Repairs.Of(shape.KindText)
			if strings.Contains(served, "\uFFFD") != (repairs.Count > 0) || repairs.Count > 0 && !strings.HasSuffix(repairs.Paths[0], "[1].title_en") {
				t.Errorf("%s %q: %+v", preset, sent, repairs)
			}
			if is := slices.ContainsFunc(got.Warnings, func(f guard.Finding) bool { return f.Kind == guard.Garbled }); is != (repairs.Count > 0) {
				t.Errorf("%s %q: %v", preset, sent, got.Warnings)
			}
		}
	}
}
