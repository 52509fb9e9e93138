package main

import (
	"bytes"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

func TestAStatusIsPrintedInAFewLinesThatATerminalOnlyShows(t *testing.T) {
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	s := operator.Status{
		Version: "1.2.3", Started: now.Add(-50 * time.Hour), Now: now,
		Upstream: operator.Upstream{URL: "https://cms.example", Level: metrics.Degraded},
		Redis:    operator.Redis{Address: "redis:6379", Up: true, Level: metrics.Degraded},
		Resources: map[shape.Resource]operator.Resource{
			shape.Catalogue: {
				Held:      &operator.Held{Bytes: 12345, ChangedAt: now.Add(-3*time.Hour - 5*time.Minute), Age: 15, Left: 45},
				LastFetch: &operator.Fetch{At: now.Add(-15 * time.Second), Status: 304, Milliseconds: 12.4, Repairs: 2},
			},
			shape.Rules: {
				Held:      &operator.Held{ChangedAt: now.Add(-5 * time.Minute), Age: 300, Left: -240, Stale: true},
				LastFetch: &operator.Fetch{At: now.Add(-300 * time.Millisecond), Error: "next: \x1b[2J\nall is well\u202e\u009b0m"},
			},
			shape.Banners: {Failing: true},
		},
	}
	out := new(bytes.Buffer)
	screen := &screen{w: out}
	printStatus(screen, "http://127.0.0.1:9090", &s)
	testkit.Must(t, screen.flush())
	want := `vitrine 1.2.3 at http://127.0.0.1:9090, up 50h0m0s
cms    https://cms.example, degraded
redis  redis:6379, degraded: purges are not received, every answer is checked

catalogue  fresh for 45s, 15s old, 12,345 bytes, changed 3h5m0s ago; fetched 15s ago: 12.4 ms, status 304, 2 repairs
rules      stale for 4m0s, 5m0s old, 0 bytes, changed 5m0s ago; fetched 0s ago: failed: next: \x1b[2J\nall is well\u202e\u009b0m
banners    missing; another replica's fetch failed
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
