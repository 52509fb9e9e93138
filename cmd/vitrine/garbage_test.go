package main

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// TestGarbageInRedisIsAMiss has redis-cli write bodies with their right etags, among them the
// documents of the other resources. Each is logged and counted once, fetched again once, and never
// served.
func TestGarbageInRedisIsAMiss(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed: apt-get install redis-tools")
	}
	server := redistest.Start(t)
	vitrine := start(t, "VITRINE_UPSTREAM_URL=http://"+startedCMS(t), "VITRINE_REDIS_URL="+server.URL(), "VITRINE_TTL=1h")
	vitrine.allAnswer(t, "hit")
	_, port, _ := strings.Cut(server.Addr, ":")
	right := map[shape.Resource]string{}
	for _, resource := range shape.Resources() {
		right[resource] = vitrine.get(t, resource).body
	}
	garbage := []string{
		"", "null", "0", "{}", "[1]", `[{"id":1}]`, `[{}]`, `[null]`, "{", "\xff", strings.Repeat("[", 100_000), `{"artist":[]}`,
		`{"artist":null,"artwork":[],"gallery":[]}`, "\ufeff[]", " []", "[] ", "[]]", `[{"id":99999999999999999999}]`,
	}
	for _, resource := range shape.Resources() {
		bodies := append([]string{right[resource][:len(right[resource])-1], right[resource] + " "}, garbage...)
		for _, other := range shape.Resources() {
			if other != resource {
				bodies = append(bodies, right[other])
			}
		}
		for i, body := range bodies {
			name := fmt.Sprintf("%s, body %d, %.40q", resource, i, body)
			counted := vitrine.metric(t, fmt.Sprintf(`vitrine_damaged_documents_total{resource="%s"}`, resource))
			fetched := vitrine.metric(t, fmt.Sprintf(`vitrine_upstream_fetches_total{outcome="stored",resource="%s"}`, resource))
			write := exec.CommandContext(t.Context(), cli, "-p", port, "-x", "HSET", "vitrine:"+string(resource), "etag", cache.ETag([]byte(body)), "body")
			write.Stdin = strings.NewReader(body)
			if said, err := write.CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != "0" {
				t.Fatalf("%s: %v %s", name, err, said)
			}
			if err := testkit.Retry(func() error {
				got := vitrine.get(t, resource)
				if got.status != http.StatusOK || got.body != right[resource] {
					t.Fatalf("%s: %d, served %.80q", name, got.status, got.body)
				}
				if held := server.Client().HGet(t.Context(), "vitrine:"+string(resource), "body").Val(); held != right[resource] {
					return errors.New("it is still there")
				}
				return nil
			}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for range 20 {
				vitrine.get(t, resource)
			}
			vitrine.want(t, fmt.Sprintf(`vitrine_upstream_fetches_total{outcome="stored",resource="%s"} %v`, resource, fetched+1))
			if n := vitrine.metric(t, fmt.Sprintf(`vitrine_damaged_documents_total{resource="%s"}`, resource)) - counted; n != 1 {
				t.Errorf("%s: counted %v times", name, n)
			}
		}
	}
}

// startedCMS is the address of a sample CMS.
func startedCMS(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	sampleCMS(t, address)
	return address
}

// metric is the value of a series.
func (r running) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(r.scrape(t)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s", series)
	return 0
}
