package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

func TestAWatchGoesOnUntilItIsInterrupted(t *testing.T) {
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	for _, test := range []struct {
		flag, want string
	}{
		{"--json", `{"version":`}, {"--watch", "  catalogue  fresh"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		output, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			args := []string{"status", "--watch", test.flag, "--every", "100ms", "--url", "http://" + vitrine.operator.Addr().String()}
			ended <- run(ctx, args, program{stdout: w, stderr: t.Output()})
			_ = w.Close()
		}()
		seen, lines := 0, bufio.NewScanner(output)
		for seen < 2 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), test.want) {
				seen++
			}
		}
		cancel()
		_, _ = io.Copy(io.Discard, output)
		if code := <-ended; code != exitDone || seen < 2 {
			t.Errorf("status --watch %s exits %d after %d answers, and %v", test.flag, code, seen, lines.Err())
		}
	}
}

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

func TestAStatusIsShownInWords(t *testing.T) {
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	s := operator.Status{
		Version: "1.2.3", Started: now.Add(-50 * time.Hour),
		Upstream: operator.Upstream{URL: "https://cms.example"},
		Redis:    operator.Redis{Address: "redis:6379", Up: true},
		Resources: map[shape.Resource]operator.Resource{
			shape.Catalogue: {
				Held: &operator.Held{
					Bytes: 12345, FetchedAt: now.Add(-15 * time.Second), ChangedAt: now.Add(-3*time.Hour - 5*time.Minute),
					FreshUntil: now.Add(45 * time.Second),
				},
				LastFetch: &operator.Fetch{At: now.Add(-15 * time.Second), Status: 304, Milliseconds: 12.4, Repairs: 2},
			},
			shape.Rules: {
				Held: &operator.Held{
					FetchedAt: now.Add(-5 * time.Minute), ChangedAt: now.Add(-5 * time.Minute), FreshUntil: now.Add(-4 * time.Minute), Stale: true,
				},
				LastFetch: &operator.Fetch{At: now.Add(-300 * time.Millisecond), Error: "fetch rules: status 503"},
			},
			shape.Banners: {Error: "fetch banners: refused"},
		},
	}
	out := new(bytes.Buffer)
	screen := &screen{w: out}
	view{screen: screen, now: now}.show("http://127.0.0.1:9090", &s)
	if err := screen.flush(); err != nil {
		t.Fatal(err)
	}
	want := `vitrine 1.2.3 at http://127.0.0.1:9090, up 2d
  cms    https://cms.example
  redis  redis:6379, purges are not being heard: every answer is checked against it

             state    age    fresh for                 bytes   changed      last fetch
  catalogue  fresh    15s    45s           ████████░░  12,345  3h5m ago     304 in 12 ms, 15s ago, 2 repaired
  rules      stale    5m     ended 4m ago  ░░░░░░░░░░  0       5m ago       failed 300ms ago
  banners    missing                                                        none by this process

rules: fetch rules: status 503
banners: fetch banners: refused
`
	// Columns are as wide as what they hold; how many spaces that makes is not what is promised.
	if squeeze(out.String()) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func squeeze(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
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
	if err := json.Unmarshal(told, &read); err != nil || read.Resources[shape.Banners].Held == nil {
		t.Errorf("%v: %s", err, told)
	}
}
