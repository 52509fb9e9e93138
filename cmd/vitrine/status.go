package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// statusCommand prints /api/status of a running vitrine, in short or as JSON.
type statusCommand struct {
	settingsFlags
	URL  string `name:"url" placeholder:"URL" help:"The operator's address of another vitrine, such as http://10.0.0.7:9090."`
	JSON bool   `name:"json" help:"Print all of /api/status."`
}

const statusTimeout = 5 * time.Second

// Run requests the status once.
func (c *statusCommand) Run(ctx context.Context, p program) error {
	cfg, _, err := c.find(p, "admin.")
	if err != nil {
		return err
	}
	base, body, err := requestStatus(ctx, cfg, c.URL)
	if err != nil {
		return err
	}
	var status operator.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("%s/api/status: %w", base, err)
	}
	missing := slices.ContainsFunc(shape.Resources(), func(r shape.Resource) bool { return status.Resources[r].Held == nil })
	return p.report(!missing, c.JSON, json.RawMessage(body), func(s *screen) { printStatus(s, base, &status) })
}

// requestStatus requests the status of the vitrine at base, or at the configured operator's
// address.
func requestStatus(ctx context.Context, cfg config.Config, base string) (at string, body []byte, err error) {
	if base = strings.TrimSuffix(base, "/"); base == "" {
		if cfg.Admin.Listen == "" {
			return "", nil, cfg.Refuse("admin.listen", errors.New("the operator's address is off; name another one with --url"))
		}
		if base, err = service.BaseURL(cfg.Admin.Listen); err != nil {
			return "", nil, cfg.Refuse("admin.listen", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err = get(ctx, base+"/api/status", new(http.Transport), cfg.Admin.Token)
	return base, body, err
}

// printStatus prints a few lines: the process, its neighbours, and each resource.
func printStatus(s *screen, base string, st *operator.Status) {
	since := func(at time.Time) string { return st.Now.Sub(at).Round(time.Second).String() }
	s.printf("vitrine %s at %s, up %s\n", st.Version, base, since(st.Started))
	s.printf("cms    %s, %s\n", st.Upstream.URL, st.Upstream.Level)
	s.printf("redis  %s, %s", st.Redis.Address, st.Redis.Level)
	switch {
	case !st.Redis.Up:
		s.printf(": unreachable, each process is on its own")
	case !st.Redis.Listening:
		s.printf(": purges are not received, every answer is checked")
	case st.Redis.Refusing != "":
		s.printf(": refuses writes: %s", st.Redis.Refusing)
	case st.Redis.BoundNeeded > 0:
		s.printf(": %.0f ms away, every answer waits for it; redis.purge_bound of %.0fms would do", st.Redis.RoundTrip, st.Redis.BoundNeeded)
	}
	s.printf("\n")
	for _, t := range st.Notify {
		s.printf("notify %s, %s", t.Name, t.Host)
		if t.Last != nil {
			s.printf(", told %s of %s %s ago", t.Last.Event, t.Last.Resource, since(t.Last.At))
		}
		if t.Pending > 0 {
			s.printf(", %d pending", t.Pending)
		}
		if t.Error != "" {
			s.printf(": %s", t.Error)
		}
		s.printf("\n")
	}
	s.printf("\n")
	for _, name := range shape.Resources() {
		r := st.Resources[name]
		s.printf("%-10s ", name)
		if h := r.Held; h == nil {
			s.printf("missing")
		} else {
			left := seconds(h.Left)
			switch {
			case h.Pinned != nil:
				s.printf("pinned by %s until %s (vitrine restore %s latest ends that)", h.Pinned.By, h.Pinned.Until.UTC().Format(time.RFC3339), name)
			case !h.Stale:
				s.printf("fresh for %s", left)
			case r.State == operator.StateIdle:
				s.printf("%s, refreshed on the next request", r.State)
			case h.FreshUntil.Before(h.FetchedAt):
				s.printf("stale, purged softly")
			default:
				s.printf("stale for %s", -left)
			}
			s.printf(", %s old, %s, changed %s ago", seconds(h.Age), english.Plural(h.Bytes, "byte", "bytes"), since(h.ChangedAt))
		}
		if f := r.LastFetch; f != nil {
			who := "fetched"
			if r.FetchedElsewhere() {
				who = "fetched by another replica since; by this one"
			}
			s.printf("; %s %s ago: %s", who, since(f.At), f.Summary())
		}
		if r.Failing && (r.LastFetch == nil || r.LastFetch.Error == "") {
			s.printf("; another replica's fetch failed")
		}
		s.printf("\n")
		if h := r.HeldBack; h != nil {
			s.printf("%-10s held back for %s, %s: %s; to accept it: %s\n", "", since(h.Since), h.Ends(), h.Reason, h.Command)
		}
		for _, suspicion := range r.Suspicions {
			s.printf("%-10s suspicious: %s\n", "", suspicion.String())
		}
	}
}

func seconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Second)).Round(time.Second)
}
