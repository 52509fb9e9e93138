package coherence

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// lines is a log that can be read while it is written.
type lines struct{ testkit.Buffer }

// warnings are the lines at warn or above.
func (l *lines) warnings() []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			found = append(found, line)
		}
	}
	return found
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestWithoutTrackingEveryAnswerIsChecked has servers that do not tell of changes, each for another
// reason.
func TestWithoutTrackingEveryAnswerIsChecked(t *testing.T) {
	t.Parallel()
	servers := map[string]func(t *testing.T) (*redistest.Server, *redis.Client){
		"CLIENT renamed away": func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := redistest.Start(t, "--rename-command", "CLIENT", "")
			return s, s.Client()
		},
		"HELLO renamed away, so that go-redis speaks RESP2": func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := redistest.Start(t, "--rename-command", "HELLO", "")
			return s, s.Client()
		},
		"no right to CLIENT TRACKING": func(t *testing.T) (*redistest.Server, *redis.Client) {
			s := redistest.Start(t)
			client := s.Client()
			must(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "-client").Err())
			return s, client
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := start(t)
			origins := NewOrigins(0, Keys...)
			var nodes []*Node
			var logs []*lines
			for range 4 {
				log := &lines{}
				logs = append(logs, log)
				nodes = append(nodes, Start(t, server.URL(), origins, Setup{Timeout: Patient, Options: Long, Logger: log.logger()}))
			}
			for _, log := range logs {
				eventually(t, "it is said", func() bool { return len(log.warnings()) > 0 })
			}
			purge := Operator(client)
			for range 2 {
				for _, kind := range Hard {
					for _, n := range nodes { // so that it is there to be purged
						_, _, err := n.Get(t.Context(), "banners")
						must(t, err)
					}
					version := origins["banners"].Version.Add(1)
					_, err := purge(t.Context(), kind, "banners")
					must(t, err)
					watch.Sleep(t.Context(), Bound) // a look is shared for as long as that
					for i, n := range nodes {
						got, status, err := n.Get(t.Context(), "banners")
						must(t, err)
						if got != version || status.Detail == cache.DetailMemory {
							t.Fatalf("replica %d, asked next after %s: version %d, want %d (%+v)", i+1, kind, got, version, status)
						}
					}
				}
			}

			// Those replicas stay, and fetch what is purged softly: the campaign has the same origins.
			must(t, client.FlushDB(t.Context()).Err())
			c := &Campaign{Origins: origins, Replicas: map[string]Replica{}, Burst: 1, Purge: purge, Kinds: All}
			for i := range 4 {
				c.Replicas[string(rune('A'+i))] = Start(t, server.URL(), origins, Setup{})
			}
			c.Begin(t)
			eventually(t, "the purges are made", func() bool { return c.Acked.Load() >= 100 || t.Failed() })
			v := c.End()
			c.Report(t, v)
			for i, log := range logs {
				w := slices.DeleteFunc(log.warnings(), func(line string) bool { return strings.Contains(line, "redis lost its data") }) // a flush looks like that
				if len(w) != 1 || !strings.Contains(w[0], "refused CLIENT TRACKING") {
					t.Errorf("replica %d: want it said once, got %q", i+1, w)
				}
			}
		})
	}
}
