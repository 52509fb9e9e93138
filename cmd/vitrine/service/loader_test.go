package service

import (
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// newLoader makes the loader of banners at url, and returns what it logs.
func newLoader(t *testing.T, url string) (*loader, *strings.Builder) {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{"VITRINE_UPSTREAM_URL=" + url, "VITRINE_UPSTREAM_RETRIES=0"}})
	testkit.Must(t, err)
	var log strings.Builder
	client, err := NewUpstream(cfg, nil, nil)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return &loader{
		cms: new(outage), client: client, resource: shape.Banners, meter: metrics.New("1.2.3", func() metrics.State { return metrics.State{} }),
		log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now,
	}, &log
}

func TestADocumentThatDidNotChangeIsNotFetchedAgain(t *testing.T) {
	cms := httptest.NewServer(sample.Handler(sample.Options{}))
	defer cms.Close()
	l, _ := newLoader(t, cms.URL)
	first, err := l.Load(t.Context(), "banners", nil)
	if err != nil || first.NotModified || len(first.Body) == 0 || first.UpstreamETag == "" || first.Status != 200 {
		t.Fatalf("the first load gives %+v, %v", first, err)
	}
	second, err := l.Load(t.Context(), "banners", &cache.Document{UpstreamETag: first.UpstreamETag})
	if err != nil || !second.NotModified || second.Status != 304 {
		t.Errorf("the second load gives %+v, %v", second, err)
	}
}

func TestWhatTheCMSDoesWrongIsLoggedOnce(t *testing.T) {
	cms := upstreamtest.New(t)
	l, log := newLoader(t, cms.URL)
	load := func() { _, _ = l.Load(t.Context(), "banners", nil) } // what it says is looked at below
	lines := func(text string) int { return strings.Count(log.String(), text) }

	cms.Set(shape.Banners, `[{"id":"x"}]`)
	load()
	load()
	if lines("refused the CMS's document") != 1 || lines("banners[0].id") != 1 {
		t.Errorf("a refusal is not logged once, with its path:\n%s", log)
	}
	cms.Fail(500)
	load()
	load()
	if lines("cannot fetch") != 1 || lines("status 500") != 1 {
		t.Errorf("a failure is not logged once:\n%s", log)
	}
	cms.Recover()
	cms.Set(shape.Banners, `[{"id":1}]`)
	load()
	load()
	if lines("the CMS answers again") != 1 || lines("repaired the CMS's document") != 1 {
		t.Errorf("recovery and repairs are not logged once:\n%s", log)
	}
}

func TestAFailureThatGoesOnIsCountedAndToldNowAndThen(t *testing.T) {
	cms := upstreamtest.New(t)
	l, log := newLoader(t, cms.URL)
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	l.now = func() time.Time { return now }
	held := func() cache.Snapshot[*represent.Document] {
		return cache.Snapshot[*represent.Document]{Document: &cache.Document{}, ServableUntil: now.Add(time.Hour)}
	}
	l.held.Store(&held)
	load := func() { _, _ = l.Load(t.Context(), "banners", nil) }

	cms.Fail(500)
	for range 3 {
		load()
		now = now.Add(4 * time.Minute)
	}
	load() // 12 minutes after the first
	cms.Recover()
	load()
	want := []string{
		`msg="cannot fetch" resource=banners .* reason=answer .*status 500.* failures=1 for=0s serving="the stale copy held, until 2026-05-01T04:00:00Z"`,
		`msg="cannot fetch" .* failures=4 for=12m0s`,
		`msg="the CMS answers again" .* failures=4 after=12m0s`,
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) < len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log)
	}
	for i, line := range lines[:len(want)] { // what the document is like comes after
		if !regexp.MustCompile(want[i]).MatchString(line) {
			t.Errorf("line %d is %s\nwant %s", i+1, line, want[i])
		}
	}
}
