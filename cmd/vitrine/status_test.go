package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"vitrine/proxy/metrics"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// The words that matter are in colour on a terminal, and nowhere else.
func TestColourIsForTerminalsAndNotWithNoColor(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		lacking(t, "script", "bsdutils") // it makes a terminal
	}
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	shown := func(environ ...string) string {
		command := exec.CommandContext(t.Context(), "script", "-qefc",
			"vitrine status --url http://"+vitrine.operator.Addr().String(), "/dev/null")
		command.Env = append(command.Environ(), environ...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := shown("TERM=xterm"); !strings.Contains(out, "\x1b[32mfresh\x1b[0m") {
		t.Errorf("no colour on a terminal:\n%q", out)
	}
	for _, environ := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if out := shown("TERM=xterm", environ); strings.Contains(out, "\x1b") || !strings.Contains(out, "fresh") {
			t.Errorf("with %s:\n%q", environ, out)
		}
	}
}

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
	if err := screen.flush(); err != nil {
		t.Fatal(err)
	}
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

// Whoever reads /api/status with a tool of his own gets what status shows.
func TestTheStatusReadsBackAsItWas(t *testing.T) {
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	told, err := json.Marshal(vitrine.status())
	if err != nil {
		t.Fatal(err)
	}
	var read operator.Status
	if err := json.Unmarshal(told, &read); err != nil || read.Resources[shape.Banners].Held == nil || read.Resources[shape.Banners].Held.Items == 0 {
		t.Errorf("%v: %s", err, told)
	}
}
