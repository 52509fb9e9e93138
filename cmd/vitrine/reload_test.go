package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"vitrine/config"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// reloadWith puts the settings into effect as a SIGHUP would.
func (r running) reloadWith(t *testing.T, environ ...string) error {
	t.Helper()
	environ = append([]string{
		"VITRINE_LISTEN=127.0.0.1:0", "VITRINE_ADMIN_LISTEN=127.0.0.1:0", "VITRINE_REDIS_URL=embedded:127.0.0.1:0",
	}, environ...)
	next, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	return r.reload(t.Context(), next)
}

func TestARotatedTokenIsUsedByTheNextFetch(t *testing.T) {
	cms := upstreamtest.New(t)
	upstreamURL := "VITRINE_UPSTREAM_URL=" + cms.URL
	vitrine := start(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token old", "VITRINE_UPSTREAM_RETRIES=0")
	vitrine.allAnswer(t, "hit")
	if err := vitrine.reloadWith(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token new", "VITRINE_UPSTREAM_RETRIES=0"); err != nil {
		t.Fatal(err)
	}
	fetched := cms.Count(shape.Banners)
	if _, err := vitrine.store.Purge(t.Context(), "banners", false); err != nil {
		t.Fatal(err)
	}
	if err := eventually(func() error {
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

func TestAReloadTakesEffectWholeOrNotAtAll(t *testing.T) {
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	before := *vitrine.present.Load()
	for _, environ := range [][]string{
		{"VITRINE_STALE_IF_ERROR=1h", "VITRINE_REDIS_PREFIX=other:"},
		{"VITRINE_STALE_IF_ERROR=1h", "VITRINE_LIMITS_RATE=5"},
	} {
		if err := vitrine.reloadWith(t, environ...); !errors.Is(err, errRestart) {
			t.Errorf("%v: %v", environ, err)
		}
		if changes := vitrine.present.Load().Changes(before); len(changes) > 0 {
			t.Errorf("%v changed %+v", environ, changes)
		}
	}
	if got := vitrine.header(t, "Cache-Control"); !strings.Contains(got, "stale-if-error=86") {
		t.Errorf("Cache-Control: %s", got)
	}
	if err := vitrine.reloadWith(t, "VITRINE_STALE_IF_ERROR=1h", "VITRINE_TTL=5s"); err != nil {
		t.Fatal(err)
	}
	if got := vitrine.header(t, "Cache-Control"); !strings.Contains(got, "stale-if-error=3") {
		t.Errorf("Cache-Control: %s", got)
	}
	if got := vitrine.present.Load().TTL.Rules; got != 5*time.Second {
		t.Errorf("TTL %v", got)
	}
}

// A file that is wrong is told, and the next one is read again.
func TestAConfigurationThatIsWrongIsToldAndChangesNothing(t *testing.T) {
	vitrine := start(t)
	asked := make(chan struct{})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		vitrine.reloads(ctx, asked, func() (config.Config, error) {
			return config.Load(config.Sources{File: "nowhere.yaml"})
		})
	}()
	before := vitrine.present.Load()
	asked <- struct{}{}
	asked <- struct{}{} // taken when the first was answered
	cancel()
	<-ended
	if vitrine.present.Load() != before {
		t.Error("it is in effect")
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
