package faults

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// TestReplicasThatDifferHarmEachOtherAsTheDocsSay has replicas with other settings, with another prefix, and
// with a clock that is an hour off on one Redis: docs/operations.md.
func TestReplicasThatDifferHarmEachOtherAsTheDocsSay(t *testing.T) {
	redis := redistest.Start(t)
	content, elsewhere := harness.NewContent(t), harness.NewContent(t)
	program := harness.BuildChanged(t, anHour(t)...)
	replica := func(content *harness.Content, environ ...string) (url string, child *harness.Child) {
		address := harness.FreeAddress(t)
		child = &harness.Child{Program: program, Log: t.Output(), Environ: append([]string{
			"VITRINE_LISTEN=" + address, "VITRINE_REDIS_URL=" + redis.URL(), "VITRINE_UPSTREAM_URL=" + content.CMS.URL, "VITRINE_TTL=1h", "VITRINE_LOG_LEVEL=warn",
		}, environ...)}
		child.Start(t)
		t.Cleanup(child.Stop)
		url = "http://" + address + "/gvapp/singlebanner"
		harness.WaitUntilWell(t, url)
		return url, child
	}
	etag := func(url string) string {
		t.Helper()
		status, header, body, err := harness.Get(http.DefaultClient, url)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v, %.100s", url, status, err, body)
		}
		return header.Get("ETag")
	}
	usual, _ := replica(content)
	ahead, clock := replica(content)
	clock.Signal(syscall.SIGUSR1)
	short, _ := replica(content, "VITRINE_TTL=1s")
	apart, _ := replica(content, "VITRINE_REDIS_PREFIX=apart:")

	// fetchesFrom counts those from two CMSs while two replicas are asked for three seconds.
	fetchesFrom := func(one, two string, cms ...*harness.Content) (n []int) {
		for _, c := range cms {
			n = append(n, -c.CMS.Count(shape.Banners))
		}
		for began := time.Now(); time.Since(began) < 3*time.Second; <-time.After(50 * time.Millisecond) {
			etag(one)
			etag(two)
		}
		for i, c := range cms {
			n[i] += c.CMS.Count(shape.Banners)
		}
		return n
	}

	// An hour off: nothing is fetched, and purges are received.
	fetched := content.CMS.Count(shape.Banners)
	for range 20 {
		if etag(ahead) != etag(usual) {
			t.Error("the one with another clock serves another document")
		}
	}
	if n := content.CMS.Count(shape.Banners) - fetched; n > 1 { // of the short TTL
		t.Errorf("%d fetches", n)
	}
	// Another prefix: a purge does not reach it.
	was := etag(apart)
	content.Purge(t, redis)
	testkit.Eventually(t, "a purge is received with another clock", func() bool { return etag(ahead) != was && etag(ahead) == etag(usual) })
	if etag(apart) != was {
		t.Error("a purge reached another prefix")
	}
	// Another TTL: the shortest one is that of all.
	if n := fetchesFrom(usual, short, content); n[0] < 2 || n[0] > 5 {
		t.Errorf("%d fetches in 3 s with a TTL of 1 s", n[0])
	}
	// Another CMS: both serve the document that was stored last.
	other, _ := replica(elsewhere)
	if n := fetchesFrom(usual, other, content, elsewhere); n[0] > 6 || n[1] > 6 {
		t.Errorf("replicas of two CMSs replace each other's documents without end: %v fetches in 3 s", n)
	}
}
