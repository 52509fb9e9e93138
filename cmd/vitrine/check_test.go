package main

import (
	"bytes"
	goflag "flag"
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
		for _, format := range []string{"txt", "json"} {
			t.Run(c.name+"."+format, func(t *testing.T) {
				cms := upstreamtest.New(t)
				c.prepare(cms)
				args := []string{"check"}
				if format == "json" {
					args = append(args, "--json")
				}
				var out bytes.Buffer
				environ := append([]string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=0"}, c.environ...)
				if code := run(t.Context(), args, program{environ: environ, stdout: &out, stderr: t.Output()}); code != c.code {
					t.Errorf("exits %d, want %d", code, c.code)
				}
				got := strings.ReplaceAll(out.String(), cms.URL, "http://CMS")
				got = measured.ReplaceAllString(got, "N ms")
				got = measuredJSON.ReplaceAllString(got, "${1}0")
				golden(t, filepath.Join("testdata", "check", c.name+"."+format), got)
			})
		}
	}
}

// TestCheckSaysWhatRedisLacks has a Redis that evicts, keeps nothing and does not push.
func TestCheckSaysWhatRedisLacks(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl")
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-client").Err())
	var out bytes.Buffer
	environ := []string{"VITRINE_REDIS_URL=" + server.URL(), "VITRINE_UPSTREAM_URL=sample:"}
	if code := run(t.Context(), []string{"check"}, program{environ: environ, stdout: &out, stderr: t.Output()}); code != exitDone {
		t.Errorf("exits %d", code)
	}
	for _, want := range []string{
		"\n  tracking   NOPERM ", ": every answer is checked against Redis, which is slower\n",
		"\n  eviction   maxmemory-policy volatile-ttl: ", "\n  persistence appendonly no: ",
		"\nAll resources would be served, but Redis lacks something: tracking, eviction, persistence.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
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
