package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestExplainShowsTheWayOfAnItem(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.HandlePath("/v1/acties", upstreamtest.JSON(`{"set":[{"key":"7","kop":"Koop\u001b[2J","bij":"2024-01-01T00:00:00+02:00"},{"key":"8"}]}`))
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	const settings = `
upstream:
  preset: custom
  resources:
    catalogue: {empty: true}
    rules: {empty: true}
    banners:
      parts:
        - {path: v1/acties, items: .set, map: '{id: .key, title_nl: need("kop"), created_at: .bij}'}
`
	testkit.Must(t, os.WriteFile(file, []byte(settings), 0o600))
	got, _ := command(t, exitFailed, nil, "check", "--explain", "banners", "--config", file, "--upstream-url", cms.URL)
	for _, want := range []string{
		"banners, the first item of GET " + cms.URL + "/v1/acties\n  received\n    {\n      \"key\": \"7\",\n",
		"  map\n    {\n      \"created_at\": ", "  served\n    {\n      \"id\": 7,\n",
		`"created_at": "2023-12-31T22:00:00.000000Z"`, "  repaired   missing", "integer         1  banners[0].id",
		// The second item fails, which the explanation of the first one does not hide.
		`key "kop" is missing`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	out, errs := command(t, exitFailed, nil, "check", "--json", "--explain", "banners", "--config", file, "--upstream-url", cms.URL)
	if !json.Valid([]byte(out)) || !strings.Contains(errs, `key "kop" is missing`) {
		t.Errorf("as JSON:\n%s%s", out, errs)
	}
	if out, _ := command(t, exitDone, nil, "check", "--explain", "catalogue", "--upstream-url", "sample:"); strings.Count(out, "  served\n") != 3 {
		t.Error(out)
	}
	cms.Set(shape.Banners, "[{\"id\":1,\"title_nl\":\"\xff\"}]")
	if out, _ := command(t, exitFailed, nil, "check", "--explain", "banners", "--upstream-url", cms.URL); !strings.Contains(out, "FAILED banners[0].title_nl: want valid UTF-8") {
		t.Error(out)
	}
}

func TestRecordedResponsesReplayWithoutTheSecretsThatWereSent(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("page") == "2" {
			upstreamtest.JSON(`{"count":3,"next":null,"results":[{"id":3}]}`).ServeHTTP(w, req)
			return
		}
		w.Header().Set("Set-Cookie", "session=hunter2")
		upstreamtest.JSON(`{"count":3,"next":"?page=2&api_key=hunter1","results":[{"id":1},{"id":2,"title_en":"Token hunter3"}]}`).ServeHTTP(w, req)
	}))
	cms.Record(shape.Catalogue, upstreamtest.Recording(t, "gzip-get"))
	cms.Record(shape.Rules, upstreamtest.Recording(t, "crash-500"))
	dir := filepath.Join(t.TempDir(), "saved")
	environ := []string{"VITRINE_UPSTREAM_AUTHORIZATION=Token hunter3", "VITRINE_UPSTREAM_RETRIES=0"}
	first, _ := command(t, exitFailed, environ, "check", "--record", dir, "--upstream-url", cms.URL)
	replayed, _ := command(t, exitFailed, environ, "check", "--upstream-url", "file:"+dir)
	for _, line := range []string{"banners    ok      status 200, 3 items", "catalogue  ok      status 200, 18 items", "status 500, an HTML page"} {
		if !strings.Contains(first, line) || !strings.Contains(replayed, line) {
			t.Errorf("%q is not in both:\n%s\n%s", line, first, replayed)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || bytes.Contains(raw, []byte("hunter2")) || bytes.Contains(raw, []byte("hunter3")) {
			t.Errorf("%s: %v\n%s", f.Name(), err, raw)
		}
	}
}

// TestMistakesInPartsAreNamedWithTheirLine runs each file of testdata/parts, whose first line has
// the message.
func TestMistakesInPartsAreNamedWithTheirLine(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "parts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		testkit.Must(t, err)
		want, _, _ := strings.Cut(strings.TrimPrefix(string(content), "# "), "\n")
		_, errs := command(t, exitWrong, nil, "config", "--config", file)
		got := strings.ReplaceAll(errs, filepath.Dir(file)+string(filepath.Separator), "")
		if !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %swant %s", file, got, want)
		}
		if strings.Contains(got, "hunter") {
			t.Errorf("%s: shows a secret: %s", file, got)
		}
	}
}
