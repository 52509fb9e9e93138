package main

import (
	"bytes"
	"strings"
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
	want := `vitrine 1.2.3 at http://127.0.0.1:9090, up 50h0m0s
cms    https://cms.example, degraded
redis  redis:6379, degraded: purges are not received, every answer is checked

catalogue  fresh for 45s, 15s old, 12,345 bytes, changed 3h5m0s ago; fetched 15s ago: 12.4 ms, status 304, 2 repairs
rules      stale for 4m0s, 5m0s old, 0 bytes, changed 5m0s ago; fetched 0s ago: failed: next: \x1b[2J\nall is well\u202e\u009b0m
banners    missing; another replica's fetch failed
`
	if got := printed(t, &s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func printed(t *testing.T, s *operator.Status) string {
	t.Helper()
	out := new(bytes.Buffer)
	screen := &screen{w: out}
	printStatus(screen, "http://127.0.0.1:9090", s)
	testkit.Must(t, screen.flush())
	return out.String()
}

func TestAStatusSaysWhatEndsAPinOrAHoldAndWhoFetchedLast(t *testing.T) {
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	soon := now.Add(5 * time.Minute)
	s := operator.Status{Now: now, Resources: map[shape.Resource]operator.Resource{}}
	for _, c := range []struct {
		name string
		is   operator.Resource
		want string
	}{
		{
			"pinned", operator.Resource{Held: &operator.Held{ChangedAt: now, Pinned: &operator.Pin{Until: now.Add(time.Hour), By: "eve@desk"}}},
			"banners    pinned by eve@desk until 2026-05-01T04:00:00Z (vitrine restore banners latest ends that), 0s old, 0 bytes, changed 0s ago\n",
		},
		{
			"held back for a time", operator.Resource{HeldBack: &operator.HeldBack{Since: now.Add(-time.Minute), Until: &soon, Reason: "no banners, 9 before", Command: "accept"}},
			"           held back for 1m0s, until 2026-05-01T03:05:00Z unless accepted: no banners, 9 before; to accept it: accept\n",
		},
		{
			"held back until accepted", operator.Resource{HeldBack: &operator.HeldBack{Since: now, Reason: "no banners, 9 before", Command: "accept"}},
			"held back for 0s, until accepted: no banners",
		},
		{
			"fetched by another replica since", operator.Resource{
				Held:      &operator.Held{FetchedAt: now.Add(-time.Second), ChangedAt: now, Age: 1, Left: 60},
				LastFetch: &operator.Fetch{At: now.Add(-2 * time.Second), Error: "status 500"},
			},
			"banners    fresh for 1m0s, 1s old, 0 bytes, changed 0s ago; fetched by another replica since; by this one 2s ago: failed: status 500\n",
		},
	} {
		s.Resources[shape.Banners] = c.is
		if got := printed(t, &s); !strings.Contains(got, c.want) {
			t.Errorf("%s: there is no %q in\n%s", c.name, c.want, got)
		}
	}
}
