package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// A body that vitrine would not have written, with its right etag, is logged and counted once,
// fetched again once, and never served.
func TestGarbageInRedisIsAMiss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	vitrine := start(t, "VITRINE_REDIS_URL="+server.URL(), "VITRINE_TTL=1h")
	vitrine.allAnswer(t, "hit")
	right := map[shape.Resource]string{}
	for _, resource := range shape.Resources() {
		right[resource] = vitrine.get(t, resource).body
	}
	for _, resource := range shape.Resources() {
		bodies := []string{"", "null", `[{"id":1}]`, right[resource] + " "}
		for _, other := range shape.Resources() {
			if other != resource {
				bodies = append(bodies, right[other])
			}
		}
		for _, body := range bodies {
			counted, fetched := fmt.Sprintf(`vitrine_damaged_documents_total{resource="%s"}`, resource), fmt.Sprintf(`vitrine_upstream_fetches_total{outcome="stored",resource="%s"}`, resource)
			damaged, stored := vitrine.metric(t, counted), vitrine.metric(t, fetched)
			testkit.Must(t, server.Client().HSet(t.Context(), "vitrine:"+string(resource), "etag", cache.ETag([]byte(body)), "body", body).Err())
			testkit.Eventually(t, "it is replaced", func() bool {
				if got := vitrine.get(t, resource); got.status != http.StatusOK || got.body != right[resource] {
					t.Fatalf("%s: %d, served %.80q", resource, got.status, got.body)
				}
				return server.Client().HGet(t.Context(), "vitrine:"+string(resource), "body").Val() == right[resource]
			})
			vitrine.want(t, fmt.Sprintf("%s %v", fetched, stored+1))
			if n := vitrine.metric(t, counted) - damaged; n != 1 {
				t.Errorf("%s: counted %v times", resource, n)
			}
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
	slow := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
	testkit.Write(t, slow, "GET /cms/rules/ HTTP/1.1\r\nHost: x\r\n")
	reloaded := make(chan error, 1)
	go func() { reloaded <- vitrine.reload(cfg) }()
	testkit.Eventually(t, "another service", func() bool { return vitrine.present.Load() != vitrine.service })
	// Both services receive this purge: the one before waits for the slow client.
	environ := []string{"VITRINE_REDIS_URL=" + vitrine.local.URL()}
	command(t, exitDone, environ, "purge", "banners")
	host, err := os.Hostname()
	testkit.Must(t, err)
	testkit.Must(t, testkit.Retry(func() error {
		if text := log.String(); !strings.Contains(text, `msg="purge made by vitrine purge" resource=banners by=`) || !strings.Contains(text, "@"+host) {
			return errors.New(text)
		}
		return nil
	}))
	if n := strings.Count(log.String(), `msg="purge received" resource=banners`); n != 1 {
		t.Errorf("logged %d times: %s", n, log)
	}
	if vitrine.running.Err() != nil {
		t.Error("the service before has ended too early to tell")
	}
	if _, err := io.WriteString(slow, "\r\n"); err != nil {
		t.Error(err)
	}
	testkit.Check(t, testkit.Receive(t, reloaded))
}
