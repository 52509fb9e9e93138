package main

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
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
				out, _ := command(t, c.code, append([]string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=0"}, c.environ...), args...)
				got := strings.ReplaceAll(out, cms.URL, "http://CMS")
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
	out, _ := command(t, exitDone, []string{"VITRINE_REDIS_URL=" + server.URL(), "VITRINE_UPSTREAM_URL=sample:"}, "check")
	for _, want := range []string{
		"\n  tracking   NOPERM ", ": every answer is checked against Redis, which is slower\n",
		"\n  eviction   maxmemory-policy volatile-ttl: ", "\n  persistence appendonly no: ",
		"\nAll resources would be served, but Redis lacks something: tracking, eviction, persistence.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

// command runs one, and wants that exit code. It returns what is printed, and what is said of
// errors.
func command(t *testing.T, code int, environ []string, args ...string) (out, errs string) {
	t.Helper()
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

func TestAStatusIsPrintedInAFewLinesThatATerminalOnlyShows(t *testing.T) {
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	s := operator.Status{
		Version: "1.2.3", Started: now.Add(-50 * time.Hour), Now: now,
		Upstream: operator.Upstream{URL: "https://cms.example", Level: metrics.Degraded},
		Redis:    operator.Redis{Address: "redis:6379", Up: true, Level: metrics.Degraded},
		Resources: map[shape.Resource]operator.Resource{
			shape.Catalogue: {
				Document:  metrics.Document{Held: &metrics.Held{Bytes: 12345, ChangedAt: now.Add(-3*time.Hour - 5*time.Minute), Age: 15, Left: 45}},
				LastFetch: &operator.Fetch{At: now.Add(-15 * time.Second), Status: 304, Milliseconds: 12.4, Repairs: 2},
			},
			shape.Rules: {
				Document:  metrics.Document{Held: &metrics.Held{ChangedAt: now.Add(-5 * time.Minute), Age: 300, Left: -240, Stale: true}},
				LastFetch: &operator.Fetch{At: now.Add(-300 * time.Millisecond), Error: "next: \x1b[2J\nall is well\u202e\u009b0m"},
			},
			shape.Banners: {Document: metrics.Document{Failing: true}},
		},
	}
	want := `vitrine 1.2.3 at http://127.0.0.1:9090, up 50h0m0s
cms    https://cms.example, degraded
redis  redis:6379, degraded: purges are not received, every answer is checked

catalogue  fresh for 45s, 15s old, 12,345 bytes, changed 3h5m0s ago; fetched 15s ago: 12.4 ms, status 304, 2 repairs
rules      stale for 4m0s, 5m0s old, 0 bytes, changed 5m0s ago; fetched 0s ago: failed: next: \x1b[2J\nall is well\u202e\u009b0m
banners    missing; another replica's fetch failed
`
	if got := printed(t, &s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func printed(t *testing.T, s *operator.Status) string {
	t.Helper()
	out := new(bytes.Buffer)
	screen := &screen{w: out}
	printStatus(screen, "http://127.0.0.1:9090", s)
	testkit.Must(t, screen.flush())
	return out.String()
}

func TestAStatusSaysWhatEndsAPinOrAHoldAndWhoFetchedLast(t *testing.T) {
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	soon := now.Add(5 * time.Minute)
	s := operator.Status{Now: now, Resources: map[shape.Resource]operator.Resource{}}
	for _, c := range []struct {
		name string
		is   operator.Resource
		want string
	}{
		{
			"pinned", operator.Resource{Document: metrics.Document{Held: &metrics.Held{ChangedAt: now, Pinned: &metrics.Pin{Until: now.Add(time.Hour), By: "eve@desk"}}}},
			"banners    pinned by eve@desk until 2026-05-01T04:00:00Z (vitrine restore banners latest ends that), 0s old, 0 bytes, changed 0s ago\n",
		},
		{
			"held back for a time", operator.Resource{Document: metrics.Document{HeldBack: &metrics.HeldBack{Since: now.Add(-time.Minute), Until: &soon, Reason: "no banners, 9 before", Command: "accept"}}},
			"           held back for 1m0s, until 2026-05-01T03:05:00Z unless accepted: no banners, 9 before; to accept it: accept\n",
		},
		{
			"held back until accepted", operator.Resource{Document: metrics.Document{HeldBack: &metrics.HeldBack{Since: now, Reason: "no banners, 9 before", Command: "accept"}}},
			"held back for 0s, until accepted: no banners",
		},
		{
			"fetched by another replica since", operator.Resource{
				Document:  metrics.Document{Held: &metrics.Held{FetchedAt: now.Add(-time.Second), ChangedAt: now, Age: 1, Left: 60}},
				LastFetch: &operator.Fetch{At: now.Add(-2 * time.Second), Error: "status 500"},
			},
			"banners    fresh for 1m0s, 1s old, 0 bytes, changed 0s ago; fetched by another replica since; by this one 2s ago: failed: status 500\n",
		},
	} {
		s.Resources[shape.Banners] = c.is
		if got := printed(t, &s); !strings.Contains(got, c.want) {
			t.Errorf("%s: there is no %q in\n%s", c.name, c.want, got)
		}
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
