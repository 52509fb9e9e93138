package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// scrape returns the metrics.
func (r running) scrape(t *testing.T) string {
	t.Helper()
	got, err := ask(http.DefaultClient, "http://"+r.operator.Addr().String()+"/metrics")
	testkit.Must(t, err)
	return got.body
}

// want waits for a line in the metrics.
func (r running) want(t *testing.T, line string) {
	t.Helper()
	testkit.Must(t, testkit.Retry(func() error {
		if !strings.Contains(r.scrape(t), line+"\n") {
			return fmt.Errorf("no %s in the metrics", line)
		}
		return nil
	}))
}

func TestCMSThatFailsAgainAndAgainIsLeftAloneAndThatIsShown(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.Fail(500)
	r := start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_UPSTREAM_RETRIES=0")
	testkit.Must(t, testkit.Retry(func() error {
		for _, resource := range shape.Resources() {
			got := r.get(t, resource)
			if got.status == http.StatusServiceUnavailable && strings.HasSuffix(got.cacheStatus, "; detail=breaker-open") {
				if want := `{"detail":"The CMS failed repeatedly and is left alone for a while."}`; got.body != want {
					t.Errorf("says %s", got.body)
				}
				return nil
			}
		}
		return fmt.Errorf("nobody is told that the breaker is open")
	}))
	r.want(t, "vitrine_breaker_open 1")
	if told := r.status().Upstream; !told.BreakerOpen || told.Breaker.State != "open" || told.Breaker.Failures != 0 && told.Breaker.Failures != 5 {
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
	if err := testkit.Retry(func() error { // it is counted before it is stored
		if got := second.get(t, shape.Banners); got.status != http.StatusOK || got.body != "[]" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
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
		return first.status().Upstream.BreakerOpen
	})
	cms.Recover()
	second := start(t, environ...)
	testkit.Eventually(t, "the CMS is said to answer", func() bool {
		for _, r := range shape.Resources() {
			second.get(t, r)
			first.get(t, r)
		}
		var told operator.Status
		got, err := ask(http.DefaultClient, "http://"+first.operator.Addr().String()+"/api/status")
		testkit.Must(t, err)
		testkit.Must(t, json.Unmarshal([]byte(got.body), &told))
		if !told.Upstream.BreakerOpen {
			t.Fatal("the breaker has closed")
		}
		return told.Upstream.Level == metrics.Good
	})
}
