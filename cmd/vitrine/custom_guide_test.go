package main

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/cmd/testkit"
	"vitrine/upstream"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// guide is a page of docs/cms, taken apart into its blocks of code.
type guide struct {
	page      string            // its file
	answers   map[string]string // by method, path and query
	documents map[shape.Resource]string
	settings  string
	message   string
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)([^\n]*)\n(.*?)^```$")

func readGuide(t *testing.T, name string) guide {
	t.Helper()
	g := guide{page: filepath.Join("..", "..", "docs", "cms", name+".md"), answers: map[string]string{}, documents: map[shape.Resource]string{}}
	page, err := os.ReadFile(g.page)
	testkit.Must(t, err)
	for _, block := range fenced.FindAllStringSubmatch(string(page), -1) {
		kind, about, text := block[1], strings.TrimSpace(block[2]), block[3]
		switch {
		case kind == "yaml":
			g.settings += text
		case kind == "text":
			g.message = strings.Join(strings.Fields(text), " ")
		case kind == "json" && strings.Contains(about, " /"):
			method, target, _ := strings.Cut(about, " ")
			path, query, _ := strings.Cut(target, "?")
			values, err := url.ParseQuery(query)
			testkit.Must(t, err)
			g.answers[method+" "+path+"?"+values.Encode()] = text
		case kind == "json":
			g.documents[shape.Resource(about)] = text
		}
	}
	if len(g.answers) < 2 || len(g.documents) < 2 || g.settings == "" {
		t.Fatalf("the guide has %d answers, %d documents", len(g.answers), len(g.documents))
	}
	return g
}

// serve is the CMS of the guide.
func (g guide) serve(t *testing.T) *upstreamtest.CMS {
	t.Helper()
	cms := upstreamtest.New(t)
	for target := range g.answers {
		_, path, _ := strings.Cut(target, " ")
		path, _, _ = strings.Cut(path, "?")
		cms.HandlePath(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, ok := g.answers[req.Method+" "+req.URL.Path+"?"+req.URL.Query().Encode()]
			if !ok {
				t.Errorf("nobody answers %s %s", req.Method, req.URL)
				upstreamtest.HTML(http.StatusNotFound).ServeHTTP(w, req)
				return
			}
			upstreamtest.JSON(body).ServeHTTP(w, req)
		}))
	}
	return cms
}

func (g guide) file(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kunstkast.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(g.settings), 0o600))
	return file
}

func (g guide) client(t *testing.T, cms *upstreamtest.CMS) *upstream.Client {
	t.Helper()
	return clientOf(t, g.file(t), cms)
}

// TestGuidesBringWhatTheySay does what a reader of each guide does: it pastes the file, and looks
// at what comes out. -update writes that into the guides.
func TestGuidesBringWhatTheySay(t *testing.T) {
	for _, name := range []string{"custom"} {
		t.Run(name, func(t *testing.T) {
			g := readGuide(t, name)
			client := g.client(t, g.serve(t))
			for r, want := range g.documents {
				got, err := client.Fetch(t.Context(), r, upstream.Validators{})
				testkit.Must(t, err)
				if len(got.Suspicions) > 0 {
					t.Errorf("%s: %v", r, got.Suspicions)
				}
				served := string(shape.Indent(nil, got.Document.Body, 2)) + "\n"
				if *update {
					page, err := os.ReadFile(g.page)
					testkit.Must(t, err)
					block := "```json " + string(r) + "\n"
					page = bytes.Replace(page, []byte(block+want+"```"), []byte(block+served+"```"), 1)
					testkit.Must(t, os.WriteFile(g.page, page, 0o644))
				} else if diff := cmp.Diff(want, served); diff != "" {
					t.Errorf("%s is not as the guide has it (-guide +got):\n%s", r, diff)
				}
			}
		})
	}
}

func TestCustomGuideQuotesTheErrorOfAKeyThatIsMissing(t *testing.T) {
	g := readGuide(t, "custom")
	g.answers["GET /v1/makers?"] = strings.ReplaceAll(g.answers["GET /v1/makers?"], `"naam"`, `"name"`)
	_, err := g.client(t, g.serve(t)).Fetch(t.Context(), shape.Catalogue, upstream.Validators{})
	if err == nil || !strings.HasSuffix(err.Error(), g.message) {
		t.Errorf("got   %v\nguide %s", err, g.message)
	}
}
