package faults

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// TestReplicasThatDifferHarmEachOtherAsTheDocsSay has replicas of other settings, of another prefix, and
// with a clock an hour off on one Redis: docs/operations.md.
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
	// Another prefix: a purge of one is none of the other.
	was := etag(apart)
	content.Purge(t, redis)
	testkit.Eventually(t, "a purge is received with another clock", func() bool { return etag(ahead) != was && etag(ahead) == etag(usual) })
	if etag(apart) != was {
		t.Error("a purge reached another prefix")
	}
	// Another TTL: the shortest one is that of all.
	fetched = content.CMS.Count(shape.Banners)
	for began := time.Now(); time.Since(began) < 5*time.Second; <-time.After(50 * time.Millisecond) {
		etag(usual)
		etag(short)
	}
	if n := content.CMS.Count(shape.Banners) - fetched; n < 3 || n > 7 {
		t.Errorf("%d fetches in 5 s with a TTL of 1 s", n)
	}
	// Another CMS: both serve what was stored last.
	other, _ := replica(elsewhere)
	var fetches [2]int
	fetches[0], fetches[1] = content.CMS.Count(shape.Banners), elsewhere.CMS.Count(shape.Banners)
	for began := time.Now(); time.Since(began) < 5*time.Second; <-time.After(50 * time.Millisecond) {
		etag(usual)
		etag(other)
	}
	n := fmt.Sprint(content.CMS.Count(shape.Banners)-fetches[0], elsewhere.CMS.Count(shape.Banners)-fetches[1])
	t.Logf("fetches from the CMS and another one in 5 s: %s", strings.TrimSpace(n))
	if content.CMS.Count(shape.Banners)-fetches[0] > 10 || elsewhere.CMS.Count(shape.Banners)-fetches[1] > 10 {
		t.Error("replicas of two CMSs replace each other's documents without end")
	}
}
