package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/upstream"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// guide is docs/cms/custom.md, taken apart into its blocks of code.
type guide struct {
	answers   map[string]string // by path and query
	documents map[shape.Resource]string
	settings  string
	message   string
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)([^\n]*)\n(.*?)^```$")

func readGuide(t *testing.T) guide {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cms", "custom.md"))
	if err != nil {
		t.Fatal(err)
	}
	g := guide{answers: map[string]string{}, documents: map[shape.Resource]string{}}
	for _, block := range fenced.FindAllStringSubmatch(string(page), -1) {
		kind, about, text := block[1], strings.TrimSpace(block[2]), block[3]
		target, isAnswer := strings.CutPrefix(about, "GET ")
		switch {
		case kind == "yaml":
			g.settings += text
		case kind == "text":
			g.message = strings.TrimSpace(text)
		case kind == "json" && isAnswer:
			g.answers[target] = text
		case kind == "json":
			g.documents[shape.Resource(about)] = text
		}
	}
	if len(g.answers) != 6 || len(g.documents) != 2 || g.settings == "" || g.message == "" {
		t.Fatalf("the guide has %d answers, %d documents", len(g.answers), len(g.documents))
	}
	return g
}

// serve is the CMS of the guide.
func (g guide) serve(t *testing.T) *upstreamtest.CMS {
	t.Helper()
	cms := upstreamtest.New(t)
	for target := range g.answers {
		path, _, _ := strings.Cut(target, "?")
		cms.HandlePath(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, ok := g.answers[req.URL.RequestURI()]
			if !ok {
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
	if err := os.WriteFile(file, []byte(g.settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (g guide) client(t *testing.T, cms *upstreamtest.CMS) *upstream.Client {
	t.Helper()
	return clientOf(t, g.file(t), cms)
}

func TestCustomGuideBringsWhatItSays(t *testing.T) {
	g := readGuide(t)
	client := g.client(t, g.serve(t))
	for r, want := range g.documents {
		got, err := client.Fetch(t.Context(), r, upstream.Validators{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(shape.Indent(nil, got.Document.Body, 2))+"\n"); diff != "" {
			t.Errorf("%s is not as the guide has it (-guide +got):\n%s", r, diff)
		}
	}
}

func TestCustomGuideQuotesTheErrorOfAKeyThatIsMissing(t *testing.T) {
	g := readGuide(t)
	g.answers["/v1/makers"] = strings.ReplaceAll(g.answers["/v1/makers"], `"naam"`, `"name"`)
	_, err := g.client(t, g.serve(t)).Fetch(t.Context(), shape.Catalogue, upstream.Validators{})
	if err == nil || !strings.HasSuffix(err.Error(), g.message) {
		t.Errorf("got   %v\nguide %s", err, g.message)
	}
}

func TestCheckReportsTheCMSOfTheCustomGuide(t *testing.T) {
	g := readGuide(t)
	cms := g.serve(t)
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"check", "--json", "--config", g.file(t), "--upstream-url", cms.URL}, program{stdout: &out, stderr: &errs})
	var said struct {
		OK        bool
		Resources map[string]struct {
			OK    bool
			Items int
		}
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || code != exitDone || !said.OK || said.Resources["catalogue"].Items != 5 {
		t.Errorf("check ended with %d and %v\n%s%s", code, err, out.String(), errs.String())
	}
}
