package sample_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"vitrine/upstream/guard"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"

	"vitrine/cmd/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t *testing.T, r shape.Resource) []byte {
	t.Helper()
	body, err := sample.FS.ReadFile(string(r) + ".json")
	testkit.Must(t, err)
	return body
}

func TestSampleIsInTheDocumentedShapeAlready(t *testing.T) {
	for _, r := range shape.Resources() {
		in := read(t, r)
		doc, err := shape.Normalize(r, in)
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		if n := doc.Repairs.Total(); n != 0 {
			t.Errorf("%s: %d repairs: %v", r, n, doc.Repairs.LogValue())
		}
		if string(doc.Body) != compact(t, string(in)) {
			t.Errorf("%s: normalizing changes more than the blanks", r)
		}
		if doc.Items < 8 {
			t.Errorf("%s: %d items, want a list of a real size", r, doc.Items)
		}
		for _, list := range doc.Survey {
			for i, f := range list.Fields {
				if f.Kind != guard.Foreign && list.With[i] == 0 {
					t.Errorf("%s: %s is empty everywhere", list.Path, f.Name)
				}
			}
		}
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	testkit.Must(t, json.Compact(&out, []byte(text)))
	return out.String()
}

var paths = map[shape.Resource]string{
	shape.Catalogue: "/gvapp/",
	shape.Rules:     "/cms/rules/",
	shape.Banners:   "/gvapp/singlebanner",
}

func ask(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(context.Background(), method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestHandlerServesTheSampleInTheManners(t *testing.T) {
	h := sample.Handler(sample.Options{})
	for r, path := range paths {
		w := ask(h, "GET", path)
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" ||
			w.Header().Get("Vary") != "Accept" || w.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if want := compact(t, string(read(t, r))); w.Body.String() != want {
			t.Errorf("%s: not the sample", path)
		}
		head := ask(h, "HEAD", path)
		if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != w.Header().Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v", path, head.Code, head.Header())
		}
		again := ask(h, "GET", path, "If-None-Match", `"x", W/`+w.Header().Get("ETag"))
		if again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s held: %d, %d bytes", path, again.Code, again.Body.Len())
		}
		if other := ask(h, "GET", path, "If-None-Match", `"x"`); other.Code != 200 {
			t.Errorf("%s, another held: %d", path, other.Code)
		}
		if post := ask(h, "POST", path); post.Code != 405 || post.Header().Get("Allow") != "GET, HEAD, OPTIONS" ||
			post.Body.String() != `{"detail":"Method \"POST\" not allowed."}` {
			t.Errorf("POST %s: %d %v %s", path, post.Code, post.Header(), post.Body)
		}
	}
}

func TestHandlerKnowsOnlyItsPaths(t *testing.T) {
	h := sample.Handler(sample.Options{})
	for _, c := range []struct {
		target   string
		code     int
		location string
	}{
		{"/gvapp", 301, "/gvapp/"},
		{"/cms/rules?format=json", 301, "/cms/rules/?format=json"},
		{"/gvapp/singlebanner/", 404, ""},
		{"/nope/", 404, ""},
		{"/", 404, ""},
		{"/healthz", 200, ""},
	} {
		w := ask(h, "GET", c.target)
		if w.Code != c.code || w.Header().Get("Location") != c.location {
			t.Errorf("%s: %d to %q, want %d to %q", c.target, w.Code, w.Header().Get("Location"), c.code, c.location)
		}
	}
}

func TestLiveSendsSomethingNewToWhoHoldsNothing(t *testing.T) {
	h := sample.Handler(sample.Options{Live: true})
	for r, path := range paths {
		bundled := compact(t, string(read(t, r)))
		first := ask(h, "GET", path)
		if held := ask(h, "GET", path, "If-None-Match", first.Header().Get("ETag")); held.Code != 304 {
			t.Errorf("%s: who holds the latest gets %d, want 304", path, held.Code)
		}
		second := ask(h, "GET", path)
		if first.Body.String() == bundled || first.Body.String() == second.Body.String() ||
			first.Header().Get("ETag") == second.Header().Get("ETag") {
			t.Errorf("%s: the same again", path)
		}
		if held := ask(h, "GET", path, "If-None-Match", first.Header().Get("ETag")); held.Code != 200 {
			t.Errorf("%s: who holds the one before gets %d, want 200", path, held.Code)
		}
		if doc, err := shape.Normalize(r, second.Body.Bytes()); err != nil || doc.Repairs.Total() != 0 {
			t.Errorf("%s: %v, %d repairs", path, err, doc.Repairs.Total())
		}
		_, before, _ := strings.Cut(first.Body.String(), updated)
		start, after, _ := strings.Cut(second.Body.String(), updated)
		if before[:stamp] >= after[:stamp] {
			t.Errorf("%s: updated_at of the first item goes from %s to %s", path, before[:stamp], after[:stamp])
		}
		if start+updated != bundled[:len(start)+len(updated)] || after[stamp:] != bundled[len(start)+len(updated)+stamp:] {
			t.Errorf("%s: more than one timestamp changed", path)
		}
	}
}

// What begins the timestamp that Live is said to change, and its length.
const (
	updated = `"updated_at":"`
	stamp   = len("2006-01-02T15:04:05.000000Z")
)

func TestDelayIsForDocumentsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sample.Handler(sample.Options{Delay: 300 * time.Millisecond})
		start := time.Now()
		ask(h, "GET", "/healthz")
		if d := time.Since(start); d != 0 {
			t.Errorf("/healthz took %v", d)
		}
		ask(h, "GET", "/gvapp/")
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("a document took %v", d)
		}
	})
}
