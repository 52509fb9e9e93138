package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestARotatedTokenIsUsedByTheNextFetch(t *testing.T) {
	cms := upstreamtest.New(t)
	upstreamURL := "VITRINE_UPSTREAM_URL=" + cms.URL
	vitrine := start(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token old", "VITRINE_UPSTREAM_RETRIES=0")
	vitrine.allAnswer(t, "hit")
	if err := vitrine.reload(settings(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token new", "VITRINE_UPSTREAM_RETRIES=0")); err != nil {
		t.Fatal(err)
	}
	fetched := cms.Count(shape.Banners)
	if _, err := vitrine.store.Purge(t.Context(), "banners", false); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Retry(func() error {
		vitrine.get(t, shape.Banners)
		if cms.Count(shape.Banners) == fetched {
			return errors.New("not fetched yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := cms.Last().Header.Get("Authorization"); got != "Token new" {
		t.Errorf("fetched with %q", got)
	}
	// The documents are of the same source, so that nothing else was fetched for it.
	if n := cms.Count(shape.Rules); n != 1 {
		t.Errorf("the rules were fetched %d times", n)
	}
}

// What was bound, opened or sized at the start changes as everything else does.
func TestNearlyEverySettingCanBeReloaded(t *testing.T) {
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	public, operator := freeAddress(t), freeAddress(t)
	if err := vitrine.reload(settings(t, "VITRINE_LISTEN="+public, "VITRINE_ADMIN_LISTEN="+operator,
		"VITRINE_REDIS_PREFIX=other:", "VITRINE_STALE_IF_ERROR=1h", "VITRINE_LIMITS_TARGET=256")); err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + public + routes[shape.Banners] + "?" + strings.Repeat("x", 300))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestURITooLong {
		t.Errorf("status %d", response.StatusCode)
	}
	if err := isWellAt("http://" + operator + "/readyz"); err != nil {
		t.Error(err)
	}
	if err := testkit.Retry(func() error {
		if response, err := http.Get("http://" + vitrine.public.Addr().String()); err == nil {
			_ = response.Body.Close()
			return errors.New("the address before still answers")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestAConfigurationThatDoesNotComeUpChangesNothing(t *testing.T) {
	cms, server := upstreamtest.New(t), redistest.Start(t)
	environ := []string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_REDIS_URL=" + server.URL(), "VITRINE_UPSTREAM_RETRIES=0"}
	vitrine := start(t, environ...)
	vitrine.allAnswer(t, "hit")
	before := vitrine.present.Load()
	for name, wrong := range map[string]string{
		"an address in use":               "VITRINE_LISTEN=" + server.Addr,
		"a Redis and a CMS that are away": "VITRINE_REDIS_URL=redis://" + freeAddress(t),
		"a program that does not compile": "VITRINE_HOOK_MATCH_BANNERS=(",
	} {
		if strings.Contains(wrong, "REDIS") {
			cms.Down()
		}
		if err := vitrine.reload(settings(t, append(environ, wrong, "VITRINE_STALE_IF_ERROR=1h", "VITRINE_HOOK_SECRET=open-sesame")...)); err == nil {
			t.Errorf("%s: reloaded", name)
		}
		if vitrine.present.Load() != before {
			t.Errorf("%s: in effect", name)
		}
		if got := vitrine.header(t, "Cache-Control"); !strings.Contains(got, "stale-if-error=86") {
			t.Errorf("%s: Cache-Control: %s", name, got)
		}
	}
	// With Redis there, a CMS that is away is no reason to refuse.
	if err := vitrine.reload(settings(t, append(environ, "VITRINE_STALE_IF_ERROR=1h")...)); err != nil {
		t.Fatal(err)
	}
	if got := vitrine.header(t, "Cache-Control"); !strings.Contains(got, "stale-if-error=3") {
		t.Errorf("Cache-Control: %s", got)
	}
}

// header is one of an answer's.
func (r running) header(t *testing.T, name string) string {
	t.Helper()
	response, err := http.Get("http://" + r.public.Addr().String() + routes[shape.Banners])
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get(name)
}
