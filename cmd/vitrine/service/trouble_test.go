package service

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// scrape returns the metrics.
func (r running) scrape(t *testing.T) string {
	t.Helper()
	got, err := testkit.Ask(http.DefaultClient, "http://"+r.operator.Addr().String()+"/metrics")
	testkit.Must(t, err)
	return got.Body
}

// want waits for a line in the metrics.
func (r running) want(t *testing.T, line string) {
	t.Helper()
	testkit.Eventually(t, line+" in the metrics", func() bool { return strings.Contains(r.scrape(t), line+"\n") })
}

func TestCMSThatFailsAgainAndAgainIsLeftAloneAndThatIsShown(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.Fail(500)
	r := start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_UPSTREAM_RETRIES=0")
	testkit.Eventually(t, "a visitor is told that the breaker is open", func() bool {
		return slices.ContainsFunc(shape.Resources(), func(resource shape.Resource) bool {
			got := r.get(t, resource)
			return got.Status == http.StatusServiceUnavailable && strings.HasSuffix(got.Header.Get("Cache-Status"), "; detail=breaker-open") &&
				got.Body == `{"detail":"The CMS failed repeatedly and is left alone for a while."}`
		})
	})
	r.want(t, "vitrine_breaker_open 1")
	if told := r.look().CMS; !told.BreakerOpen || told.Breaker.State != "open" || told.Breaker.Failures != 0 && told.Breaker.Failures != 5 {
		t.Errorf("status tells %+v", told)
	}
	if n := len(cms.Requests()); n != 5 {
		t.Errorf("the CMS was asked %d times, want 5", n)
	}
}

func TestListThatIsEmptyNowIsServedAndCounted(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	cms := upstreamtest.New(t)
	first := start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_REDIS_URL="+redis.URL(), "VITRINE_GUARD_SHRINK=0")
	first.allAnswer(t, "hit")
	// Another replica has it from Redis, and is the one that fetches it empty.
	testkit.Must(t, first.stop())
	second := start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_REDIS_URL="+redis.URL(), "VITRINE_GUARD_SHRINK=0")
	second.allAnswer(t, "hit")
	cms.Set(shape.Banners, "[]")
	testkit.Must(t, redis.Client().HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	second.want(t, `vitrine_suspicions_total{kind="emptied",resource="banners"} 1`)
	testkit.Eventually(t, "the empty list is served", func() bool { // it is counted before it is stored
		got := second.get(t, shape.Banners)
		return got.Status == http.StatusOK && got.Body == "[]"
	})
}

// The replica with the open breaker does not ask the CMS; what the other one has fetched is newer.
func TestACMSThatAnotherReplicaFetchesFromIsNotDown(t *testing.T) {
	t.Parallel()
	redis, cms := redistest.Start(t), upstreamtest.New(t)
	cms.Fail(500)
	environ := []string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_REDIS_URL=" + redis.URL(), "VITRINE_UPSTREAM_RETRIES=0"}
	first := start(t, environ...)
	testkit.Eventually(t, "the breaker opens", func() bool {
		for _, r := range shape.Resources() {
			first.get(t, r)
		}
		return first.look().CMS.BreakerOpen
	})
	cms.Recover()
	second := start(t, environ...)
	testkit.Eventually(t, "the CMS is said to answer", func() bool {
		for _, r := range shape.Resources() {
			second.get(t, r)
			first.get(t, r)
		}
		told, err := operatorStatus(first)
		testkit.Must(t, err)
		if !told.Upstream.BreakerOpen {
			t.Fatal("the breaker has closed")
		}
		return told.Upstream.Level == verdict.Good
	})
}

// A body that vitrine would not have written, with its right etag, is logged and counted once,
// fetched again once, and never served.
func TestGarbageInRedisIsAMiss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	vitrine := start(t, "VITRINE_REDIS_URL="+server.URL(), "VITRINE_TTL=1h")
	vitrine.allAnswer(t, "hit")
	right := map[shape.Resource]string{}
	for _, resource := range shape.Resources() {
		right[resource] = vitrine.get(t, resource).Body
	}
	for _, resource := range shape.Resources() {
		bodies := []string{"null", `[{"id":1}]`, right[resource] + " "}
		for _, other := range shape.Resources() {
			if other != resource {
				bodies = append(bodies, right[other])
			}
		}
		counted, fetched := fmt.Sprintf(`vitrine_damaged_documents_total{resource="%s"}`, resource), fmt.Sprintf(`vitrine_upstream_fetches_total{outcome="stored",resource="%s"}`, resource)
		damaged, stored := vitrine.metric(t, counted), vitrine.metric(t, fetched)
		for _, body := range bodies {
			damaged, stored = damaged+1, stored+1
			testkit.Must(t, server.Client().HSet(t.Context(), "vitrine:"+string(resource), "etag", cache.ETag([]byte(body)), "body", body).Err())
			testkit.Eventually(t, "it is replaced", func() bool {
				if got := vitrine.get(t, resource); got.Status != http.StatusOK || got.Body != right[resource] {
					t.Fatalf("%s: %d, served %.80q", resource, got.Status, got.Body)
				}
				return server.Client().HGet(t.Context(), "vitrine:"+string(resource), "body").Val() == right[resource]
			})
			vitrine.want(t, fmt.Sprintf("%s %v", fetched, stored))
			vitrine.want(t, fmt.Sprintf("%s %v", counted, damaged))
		}
	}
}

// metric is the value of a series.
func (r running) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(r.scrape(t)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			testkit.Must(t, err)
			return n
		}
	}
	t.Fatalf("no %s", series)
	return 0
}

func TestAPurgeIsLoggedOnceAndWithItsAuthor(t *testing.T) {
	t.Parallel()
	log, cfg := new(testkit.Buffer), settings(t)
	vitrine := startWith(t, cfg, log)
	vitrine.get(t, shape.Banners)
	vitrine.admin.Begin() // a request under way
	reloaded := make(chan error, 1)
	go func() { reloaded <- vitrine.reload(cfg) }()
	testkit.Eventually(t, "another service", func() bool { return vitrine.present.Load() != vitrine.service })
	// Both services receive this purge: the one before waits for its request.
	_, err := vitrine.store.Purge(t.Context(), "banners", false, "somebody@host")
	testkit.Must(t, err)
	testkit.Eventually(t, "the log tells who purged", func() bool {
		return strings.Contains(log.String(), `msg="purge received" resource=banners kind=hard by=somebody@host`)
	})
	if n := strings.Count(log.String(), `msg="purge received" resource=banners`); n != 1 {
		t.Errorf("logged %d times: %s", n, log)
	}
	if vitrine.running.Err() != nil {
		t.Error("the service before has ended too early to tell")
	}
	vitrine.admin.End()
	testkit.Check(t, testkit.Receive(t, reloaded))
}
