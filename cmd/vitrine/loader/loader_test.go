package loader

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
	"vitrine/config/source"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/proxy/verdict"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// newLoader makes the loader of banners at url, and returns what it logs.
func newLoader(t *testing.T, url string) (*Loader, *strings.Builder) {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{"VITRINE_UPSTREAM_URL=" + url}})
	testkit.Must(t, err)
	o := upstream.Options{
		URL: url, Timeout: cfg.Upstream.Timeout, MaxBytes: int64(cfg.Upstream.MaxBytes), Shared: cfg.Upstream.Shared,
		Resources: map[shape.Resource]source.Resource{},
	}
	for _, r := range shape.Resources() {
		o.Resources[r] = cfg.Upstream.Resources.Of(string(r))
	}
	client, err := upstream.New(o)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	var log strings.Builder
	meter := metrics.New("1.2.3", func() verdict.Snapshot { return verdict.Snapshot{} })
	return New(client, shape.Banners, guard.Policy{}, meter, slog.New(slog.NewTextHandler(&log, nil))), &log
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
	if lines("rejected the CMS's document") != 1 || lines("banners[0].id") != 1 {
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
	l.SetHeld(held)
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
		`msg="cannot fetch" resource=banners .* reason=answer .*status 500.* failures=1 for=0s serving="the stale cached copy, until 2026-05-01T04:00:00Z"`,
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

// TestADocumentThatASoftPurgeDidNotChangeIsFetchedAgainTwice has a CMS behind a CDN that publishes
// late: the next loads know by the freshness of the copy, which each replica sees.
func TestADocumentThatASoftPurgeDidNotChangeIsFetchedAgainTwice(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Banners, upstreamtest.JSON(`[{"id":1}]`, "Age", "7"))
	l, _ := newLoader(t, cms.URL)
	load := func(held *cache.Document) cache.Loaded {
		t.Helper()
		loaded, err := l.Load(t.Context(), "banners", held)
		testkit.Must(t, err)
		return loaded
	}
	first := load(nil)
	if first.Fresh != 0 || first.Age != 7*time.Second || cms.Last().Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%+v, %v", first, cms.Last().Header)
	}
	held := func(fresh time.Duration) *cache.Document {
		at := time.Now()
		return &cache.Document{Body: first.Body, UpstreamETag: first.UpstreamETag, FetchedAt: at, FreshUntil: at.Add(fresh)}
	}
	for _, c := range []struct {
		name    string
		held    *cache.Document
		soft    bool
		want    time.Duration
		noCache bool
	}{
		{"stale", held(time.Minute), false, 0, false},
		{"purged", held(time.Minute), true, firstAgain, true},
		{"2 s later", held(firstAgain), false, secondAgain, true},
		{"10 s later", held(secondAgain), false, 0, true},
		{"purged again", held(firstAgain), true, firstAgain, true},
		{"in between", held(time.Minute), false, 0, false},
		{"what an Age leaves", held(2 * time.Second), false, 0, false},
		{"replaced by another since", &cache.Document{Body: first.Body, UpstreamETag: first.UpstreamETag, FetchedAt: time.Now().Add(time.Minute), FreshUntil: time.Now().Add(time.Hour)}, true, 0, false},
	} {
		if c.soft {
			l.Purged()
		}
		got := load(c.held)
		h := cms.Last().Header
		if got.Fresh != c.want || got.Age != 7*time.Second || (h.Get("Cache-Control") == "no-cache") != c.noCache || (h.Get("If-None-Match") != "") == c.noCache || l.purged.Load() != 0 {
			t.Errorf("%s: fresh for %v, sent %v", c.name, got.Fresh, h)
		}
	}
	cms.Set(shape.Banners, `[{"id":2}]`)
	l.Purged()
	if got := load(held(time.Minute)); got.Fresh != 0 {
		t.Errorf("a new document is fresh for %v", got.Fresh)
	}
	cms.Set(shape.Banners, `{"count":3,"next":null,"results":[{"id":1},{"id":2}]}`)
	if got := load(nil); got.Fresh != unsettled {
		t.Errorf("a list that changed while it was read is fresh for %v", got.Fresh)
	}
	cms.Fail(500)
	l.Purged()
	if _, err := l.Load(t.Context(), "banners", held(time.Minute)); err == nil || l.purged.Load() == 0 {
		t.Errorf("a fetch that fails ends the purge: %v", err)
	}
}
