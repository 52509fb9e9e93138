package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/cmd/testkit"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/upstream"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// The examples that operators copy, against the recorded answers of the CMSs that they are for,
// over real HTTP.

// example is a client of cms with one of the example files.
func example(t *testing.T, name string, cms *upstreamtest.CMS) *upstream.Client {
	t.Helper()
	return clientOf(t, filepath.Join("..", "..", "docs", "cms", "examples", name+".yaml"), cms)
}

// clientOf is the client that a configuration file makes, of cms.
func clientOf(t *testing.T, file string, cms *upstreamtest.CMS) *upstream.Client {
	t.Helper()
	cfg, err := config.Load(config.Sources{File: file, Flags: map[string]string{"upstream-url": cms.URL}})
	testkit.Must(t, err)
	client, err := service.NewUpstream(cfg, nil)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

// playBack answers at path with recordings, the first whose key is in the query. The key "" is in
// every query.
func playBack(t *testing.T, cms *upstreamtest.CMS, path string, recordings ...[2]string) {
	t.Helper()
	var handlers []http.Handler
	for _, r := range recordings {
		handlers = append(handlers, upstreamtest.Recorded(t, upstreamtest.Recording(t, r[1])))
	}
	cms.HandlePath(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		query := "&" + req.URL.Query().Encode() + "&"
		for i, r := range recordings {
			if r[0] == "" || strings.Contains(query, "&"+r[0]+"&") {
				handlers[i].ServeHTTP(w, req)
				return
			}
		}
		upstreamtest.HTML(http.StatusNotFound).ServeHTTP(w, req)
	}))
}

// fetched fetches r and decodes what would be served.
func fetched(t *testing.T, client *upstream.Client, r shape.Resource) any {
	t.Helper()
	got, err := client.Fetch(t.Context(), r, upstream.Held{})
	testkit.Must(t, err)
	if len(got.Warnings) > 0 {
		t.Errorf("%s: suspicions %v", r, got.Warnings)
	}
	var v any
	testkit.Must(t, json.Unmarshal(got.Document.Body, &v))
	return v
}

// hold compares what is served with testdata/cms/NAME, which was compared with the rows that every
// recorded CMS was filled with. -update writes it.
func hold(t *testing.T, name string, cms *upstreamtest.CMS, resources ...shape.Resource) {
	t.Helper()
	client := example(t, name, cms)
	for _, r := range resources {
		got := fetched(t, client, r)
		text, err := json.MarshalIndent(got, "", " ")
		testkit.Must(t, err)
		golden(t, filepath.Join("testdata", "cms", name, string(r)+".json"), string(text)+"\n")
	}
}

func TestExamplesBringTheRows(t *testing.T) {
	type answers map[string][][2]string // by path: what is in the query, and the recording
	strapi := func(version string) answers {
		return answers{
			"/api/artists":  {{"populate%5Bgallery_artists%5D=true", version + "/artists-populate-star"}},
			"/api/artworks": {{"", version + "/artworks-list"}},
			"/api/galleries": {{
				"populate%5Baddress%5D%5Bpopulate%5D%5Bcity%5D%5Bpopulate%5D=%2A&populate%5Baddress%5D%5Bpopulate%5D%5Bcountry%5D=true",
				version + "/galleries-populate-deep3",
			}},
			"/api/rules":   {{"populate%5Bexlude_pages%5D=true&populate%5Bpage_rules%5D%5Bpopulate%5D%5B0%5D=page", version + "/rules-populate-deep"}},
			"/api/banners": {{"", version + "/banners-list"}},
		}
	}
	directus, wordpress := answers{}, answers{}
	for list, recording := range map[string]string{
		"artists": "artists-list-fields3", "artworks": "artworks-list", "galleries": "galleries-list-fields3-backlink-false",
		"rules": "rules-list-fields3", "banners": "banners-list",
	} {
		directus["/items/"+list] = [][2]string{{"limit=-1", "directus/" + recording}, {"", "directus/artists-page-param-past-end"}}
		if list != "rules" { // the recordings have none
			wordpress["/wp-json/wp/v2/"+list] = [][2]string{{"order=asc&orderby=id&page=1&per_page=100", "wordpress/" + list + "-list"}}
		}
	}
	for name, of := range map[string]answers{"strapi4": strapi("strapi4"), "strapi5": strapi("strapi5"), "directus": directus, "wordpress": wordpress} {
		t.Run(name, func(t *testing.T) {
			cms, resources := upstreamtest.New(t), shape.Resources()
			for path, recordings := range of {
				playBack(t, cms, path, recordings...)
			}
			if name == "wordpress" {
				resources = []shape.Resource{shape.Catalogue, shape.Banners}
			}
			hold(t, name, cms, resources...)
		})
	}
}

func TestDRFExampleFollowsPages(t *testing.T) {
	cms := upstreamtest.New(t)
	plain := fetched(t, example(t, "drf", cms), shape.Banners)
	playBack(t, cms, "/gvapp/singlebanner",
		[2]string{"page=2", "drf/paged-singlebanner-page2"},
		[2]string{"page=3", "drf/paged-singlebanner-page3-last"},
		[2]string{"", "drf/paged-singlebanner-page1"},
	)
	if diff := cmp.Diff(plain, fetched(t, example(t, "drf", cms), shape.Banners)); diff != "" {
		t.Errorf("in pages it is another document (-plain +paged):\n%s", diff)
	}
	playBack(t, cms, "/cms/rules/", [2]string{"", "drf/paged-rules-page1"})
	if rules, _ := fetched(t, example(t, "drf", cms), shape.Rules).([]any); len(rules) != 2 {
		t.Errorf("%d rules, want 2", len(rules))
	}
}

func TestGuidesShowTheExamplesThatAreTested(t *testing.T) {
	docs := filepath.Join("..", "..", "docs", "cms")
	examples, err := filepath.Glob(filepath.Join(docs, "examples", "*.yaml"))
	if err != nil || len(examples) != 5 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, file := range examples {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		guide, err := os.ReadFile(filepath.Join(docs, strings.TrimSuffix(filepath.Base(file), ".yaml")+".md"))
		link := "](examples/" + filepath.Base(file) + ")"
		shown := !strings.Contains(string(guide), "```yaml\n") || strings.Contains(string(guide), "```yaml\n"+string(text)+"```\n")
		if err != nil || !strings.Contains(string(guide), link) || !shown {
			t.Errorf("the guide does not link to %s, or does not show it as it is: %v", file, err)
		}
		_, err = config.Load(config.Sources{File: file})
		testkit.Check(t, err)
	}
	readme, err := os.ReadFile(filepath.Join(docs, "README.md"))
	testkit.Must(t, err)
	for _, block := range fenced.FindAllStringSubmatch(string(readme), -1) {
		if block[1] != "yaml" {
			continue
		}
		file := filepath.Join(t.TempDir(), "vitrine.yaml")
		text := strings.ReplaceAll(block[3], "/run/secrets/cms", file+".secret")
		if strings.HasPrefix(text, "- ") { // parts alone
			text = "upstream:\n  resources:\n    catalogue:\n      parts:\n" + shifted(text, "        ")
		}
		for name, content := range map[string]string{file: text, file + ".secret": "hush\n"} {
			testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
		}
		cfg, err := config.Load(config.Sources{
			File: file, Environ: []string{"CMS_KEY=key", "CMS_SECRET=hush"},
			Flags: map[string]string{"upstream-url": "http://127.0.0.1:1", "upstream-preset": "strapi5"},
		})
		if err == nil {
			var client *upstream.Client
			if client, err = service.NewUpstream(cfg, nil); err == nil {
				client.Close()
			}
		}
		if err != nil {
			t.Errorf("docs/cms/README.md: %v\n%s", err, text)
		}
	}
}

func shifted(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

// guide is customGuide, taken apart into its blocks of code.
type guide struct {
	answers   map[string]string // by method, path and query
	documents map[shape.Resource]string
	settings  string
	message   string
	dir       string // of the file
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)([^\n]*)\n(.*?)^```$")

var customGuide = filepath.Join("..", "..", "docs", "cms", "custom.md")

func readGuide(t *testing.T) guide {
	t.Helper()
	g := guide{dir: t.TempDir(), answers: map[string]string{}, documents: map[shape.Resource]string{}}
	page, err := os.ReadFile(customGuide)
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

// client is the client that the guide's file makes, of that CMS.
func (g guide) client(t *testing.T) *upstream.Client {
	t.Helper()
	file := filepath.Join(g.dir, "kunstkast.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(g.settings), 0o600))
	return clientOf(t, file, g.serve(t))
}

// TestCustomGuideBringsWhatItSays does what a reader of the guide does: it pastes the file, and looks
// at what comes out. -update writes that into the guide.
func TestCustomGuideBringsWhatItSays(t *testing.T) {
	g := readGuide(t)
	client := g.client(t)
	for r, want := range g.documents {
		got, err := client.Fetch(t.Context(), r, upstream.Held{})
		testkit.Must(t, err)
		if len(got.Warnings) > 0 {
			t.Errorf("%s: %v", r, got.Warnings)
		}
		served := string(shape.Indent(nil, got.Document.Body, 2)) + "\n"
		if *update {
			page, err := os.ReadFile(customGuide)
			testkit.Must(t, err)
			block := "```json " + string(r) + "\n"
			page = bytes.Replace(page, []byte(block+want+"```"), []byte(block+served+"```"), 1)
			testkit.Must(t, os.WriteFile(customGuide, page, 0o644))
		} else if diff := cmp.Diff(want, served); diff != "" {
			t.Errorf("%s is not as the guide has it (-guide +got):\n%s", r, diff)
		}
	}
}

func TestCustomGuideQuotesTheErrorOfAKeyThatIsMissing(t *testing.T) {
	g := readGuide(t)
	g.answers["GET /v1/makers?"] = strings.ReplaceAll(g.answers["GET /v1/makers?"], `"naam"`, `"name"`)
	_, err := g.client(t).Fetch(t.Context(), shape.Catalogue, upstream.Held{})
	if err == nil || !strings.HasSuffix(strings.ReplaceAll(err.Error(), g.dir+"/", ""), g.message) {
		t.Errorf("got   %v\nguide %s", err, g.message)
	}
}
