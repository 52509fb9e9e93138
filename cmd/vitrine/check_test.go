package main

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

var update = goflag.Bool("update", false, "write the golden reports into testdata/check")

// What differs from run to run in a report.
var (
	measured     = regexp.MustCompile(`\b\d+(\.\d)? ms\b`)
	measuredJSON = regexp.MustCompile(`("(?:milliseconds|fetch|map|normalize)": )[0-9.]+`)
)

// TestReportsReadAsTheyAreWrittenDown holds what check says of a CMS, over real HTTP, against the
// files in testdata/check.
func TestReportsReadAsTheyAreWrittenDown(t *testing.T) {
	const login = `<!doctype html><form action="/login"><input name="user"><input type="password" name="password"></form>`
	for _, c := range []struct {
		name    string
		prepare func(cms *upstreamtest.CMS)
		environ []string
		code    int
	}{
		{name: "recorded", prepare: func(*upstreamtest.CMS) {}},
		{
			name: "edges", // texts in many scripts, timestamps in many forms
			prepare: func(cms *upstreamtest.CMS) {
				cms.Record(shape.Catalogue, upstreamtest.Recording(t, "edge-gvapp"))
				cms.Record(shape.Rules, upstreamtest.Recording(t, "edge-rules"))
				cms.Record(shape.Banners, upstreamtest.Recording(t, "edge-singlebanner"))
			},
		},
		{
			name: "repaired",
			prepare: func(cms *upstreamtest.CMS) {
				cms.Set(shape.Catalogue, `{"artist":[{"id":"1","name":null,"owner":2},{"id":2.0,"name":"\u001b[31m","extra":{}}],"meta":{}}`)
				cms.Set(shape.Rules, `[]`)
				cms.Set(shape.Banners, `[{"id":1,"status":"draft"},{"id":2},{"id":3},{"id":4},{"id":5},{"id":6},{"id":7}]`)
			},
		},
		{
			name: "refused",
			prepare: func(cms *upstreamtest.CMS) {
				cms.Record(shape.Catalogue, upstreamtest.Recording(t, "crash-500"))
				cms.Handle(shape.Rules, upstreamtest.JSON(login, "Content-Type", "text/html"))
				cms.Set(shape.Banners, `[{"id":1},{"id":2,"title_en":3}]`)
			},
			code: exitFailed,
		},
		{
			name: "errors",
			prepare: func(cms *upstreamtest.CMS) {
				cms.Record(shape.Catalogue, upstreamtest.Recording(t, "token-wrong-401"))
				cms.Set(shape.Rules, `{"errors":[{"message":"You don't have permission","extensions":{"code":"FORBIDDEN"}}]}`)
				cms.Handle(shape.Banners, upstreamtest.Truncated(`[{"id":1}]`, 4))
			},
			environ: []string{"VITRINE_UPSTREAM_AUTHORIZATION=Token nope"},
			code:    exitFailed,
		},
	} {
		for _, format := range []string{"txt", "json"} { // as JSON, what two of them hold
			if format == "json" && c.name != "repaired" && c.name != "refused" {
				continue
			}
			t.Run(c.name+"."+format, func(t *testing.T) {
				cms := upstreamtest.New(t)
				c.prepare(cms)
				args := []string{"check"}
				if format == "json" {
					args = append(args, "--json")
				}
				out, _ := runCommand(t, c.code, append([]string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=0"}, c.environ...), args...)
				got := strings.ReplaceAll(out, cms.URL, "http://CMS")
				got = measured.ReplaceAllString(got, "N ms")
				got = measuredJSON.ReplaceAllString(got, "${1}0")
				golden(t, filepath.Join("testdata", "check", c.name+"."+format), got)
			})
		}
	}
}

// TestCheckSaysWhatRedisLacks has a Redis that evicts, keeps nothing and does not let the history be read.
func TestCheckSaysWhatRedisLacks(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl")
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-hkeys").Err())
	out, _ := runCommand(t, exitDone, []string{"VITRINE_REDIS_URL=" + server.URL(), "VITRINE_UPSTREAM_URL=sample:"}, "check")
	for _, want := range []string{
		"\n  rights     not permitted: hkeys: ",
		"\n  eviction   maxmemory-policy volatile-ttl: ", "\n  persistence appendonly no: ",
		"\nAll resources would be served, but Redis lacks something: rights, eviction, persistence.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

// runCommand runs one, and wants that exit code. It returns what is printed, and what is said of
// errors. It reads no store that happens to be at the default port.
func runCommand(t *testing.T, code int, environ []string, args ...string) (out, errs string) {
	t.Helper()
	environ = append([]string{fmt.Sprint("VITRINE_REDIS_URL=embedded:127.0.0.1:", redistest.FreePort(t))}, environ...)
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), args, program{environ: environ, stdout: &stdout, stderr: &stderr}); got != code {
		t.Errorf("vitrine %q exits %d, want %d:\n%s%s", args, got, code, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	testkit.Must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update to take it):\n%s", file, diff)
	}
}

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
	got, said := runCommand(t, exitFailed, nil, "check", "--explain", "banners", "--config", file, "--upstream-url", cms.URL)
	got += said
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
	out, errs := runCommand(t, exitFailed, nil, "check", "--json", "--explain", "banners", "--config", file, "--upstream-url", cms.URL)
	if !json.Valid([]byte(out)) || !strings.Contains(errs, `key "kop" is missing`) {
		t.Errorf("as JSON:\n%s%s", out, errs)
	}
	if out, _ := runCommand(t, exitDone, nil, "check", "--explain", "catalogue", "--upstream-url", "sample:"); strings.Count(out, "  served\n") != 3 {
		t.Error(out)
	}
	cms.Set(shape.Banners, `[{"id":1,"title_nl":3}]`)
	if out, _ := runCommand(t, exitFailed, nil, "check", "--explain", "banners", "--upstream-url", cms.URL); !strings.Contains(out, "FAILED banners[0].title_nl: want text, got 3") {
		t.Error(out)
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
		_, errs := runCommand(t, exitWrong, nil, "config", "--config", file)
		got := strings.ReplaceAll(errs, filepath.Dir(file)+string(filepath.Separator), "")
		if !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %swant %s", file, got, want)
		}
		if strings.Contains(got, "hunter") {
			t.Errorf("%s: shows a secret: %s", file, got)
		}
	}
}
