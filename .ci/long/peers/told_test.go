package peers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// TestEachFillIsToldOnceByFourReplicas: fills two seconds apart are one call each, in order. Then
// replicas are killed as soon as the CMS has answered, and each fill is told at least once.
// LONG_VOLUME=100 makes 1,000 fills.
func TestEachFillIsToldOnceByFourReplicas(t *testing.T) {
	var mu sync.Mutex // guards told
	var told []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Event, Resource, ETag string }
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(body, &e) == nil && e.Resource == "banners" {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.ETag)
		}
	}))
	t.Cleanup(server.Close)
	configuration := write(t, t.TempDir(), "vitrine.yaml", "notify:\n  - {name: hook, preset: webhook, url: '"+server.URL+"', events: [changed, purged]}\n")
	content, redis := harness.NewContent(t), redistest.Start(t)
	var replicas []*harness.Child
	var public []string
	for range 4 {
		address := harness.FreeAddress(t)
		child := &harness.Child{Log: t.Output(), Environ: []string{
			"VITRINE_LISTEN=" + address, "VITRINE_REDIS_URL=" + redis.URL(), "VITRINE_UPSTREAM_URL=" + content.CMS.URL,
			"VITRINE_TTL=1h", "VITRINE_CONFIG=" + configuration, "VITRINE_LOG_LEVEL=warn",
		}}
		child.Start(t)
		t.Cleanup(child.Stop)
		replicas, public = append(replicas, child), append(public, address)
		harness.WaitUntilWell(t, "http://"+address+harness.Routes[shape.Banners])
	}
	// next publishes another version, and purges softly: one replica fetches it.
	next := func() (etag string) {
		t.Helper()
		content.Publish()
		normal, err := shape.Normalize(shape.Banners, []byte(content.Banners()))
		testkit.Must(t, err)
		testkit.Must(t, redis.Client().HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
		return cache.ETag(normal.Body)
	}
	has := func(etag string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(told, etag)
	}
	testkit.Eventually(t, "the first document is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > 0 })
	mu.Lock()
	told = nil
	mu.Unlock()
	var want []string
	for range 10 * harness.Volume(t) {
		want = append(want, next())
		<-time.After(2 * time.Second)
	}
	testkit.Eventually(t, "the last fill is told", func() bool { return has(want[len(want)-1]) })
	mu.Lock()
	if !slices.Equal(told, want) {
		t.Errorf("%d fills were told in %d calls:\n%q\n%q", len(want), len(told), want, told)
	}
	mu.Unlock()
	for i := range replicas {
		fetched := content.CMS.Count(shape.Banners)
		etag := next()
		content.CMS.WaitCount(shape.Banners, fetched+1)
		<-time.After(harness.PurgeBound / 4)
		replicas[i].Kill()
		replicas[i].Start(t)
		testkit.Within(t, 2*time.Minute, "a fill is told although a replica was killed", func() bool {
			client := http.Client{Timeout: time.Second}
			for _, address := range public { // one that was killed before its fill has left a lease
				if response, err := client.Get("http://" + address + harness.Routes[shape.Banners]); err == nil {
					response.Body.Close()
				}
			}
			return has(etag)
		})
	}
}
