package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"vitrine/config"
	"vitrine/proxy/metrics"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// statusCommand prints /api/status of a running vitrine, in short or as JSON.
type statusCommand struct {
	settingsFlags
	URL  string `name:"url" placeholder:"URL" help:"The operator's address of another vitrine, such as http://10.0.0.7:9090."`
	JSON bool   `name:"json" help:"Print all of /api/status."`
}

// Help has examples.
func (statusCommand) Help() string {
	return "Requests the status at the configured operator's address, with its token. " +
		"Exit code 0: it answered; 1: it did not. Colours only on a terminal, unless NO_COLOR is set.\n\n" + examples(
		"vitrine status",
		"watch vitrine status",
		"vitrine status --json | jq .resources.banners",
		"VITRINE_ADMIN_TOKEN_FILE=/run/secrets/operator vitrine status --url http://10.0.0.7:9090",
	)
}

// Run requests the status once.
func (c *statusCommand) Run(ctx context.Context, p program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(c.URL, "/")
	if base == "" {
		if base, err = operatorURL(cfg); err != nil {
			return err
		}
	}
	body, err := fetchStatus(ctx, base, cfg.Admin.Token)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = p.stdout.Write(body)
		return err
	}
	var status operator.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("%s/api/status: %w", base, err)
	}
	screen := newScreen(p)
	printStatus(screen, base, &status)
	return screen.flush()
}

// printStatus prints a few lines: the process, its neighbours, and each resource.
func printStatus(s *screen, base string, st *operator.Status) {
	since := func(at time.Time) string { return st.Now.Sub(at).Round(time.Second).String() }
	s.printf("vitrine %s at %s, up %s\n", st.Version, base, since(st.Started))
	s.printf("cms    %s, %s\n", st.Upstream.URL, s.level(st.Upstream.Level))
	s.printf("redis  %s, %s", st.Redis.Address, s.level(st.Redis.Level))
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
	s.printf("\n\n")
	for _, name := range shape.Resources() {
		r := st.Resources[name]
		s.printf("%-10s ", name)
		if h := r.Held; h == nil {
			s.printf("%s", s.bad("missing"))
		} else {
			left := seconds(h.Left)
			switch {
			case !h.Stale:
				s.printf("%s for %s", s.good("fresh"), left)
			case h.FreshUntil.Before(h.FetchedAt):
				s.printf("%s, purged softly", s.warn("stale"))
			default:
				s.printf("%s for %s", s.warn("stale"), -left)
			}
			s.printf(", %s old, %s bytes, changed %s ago", seconds(h.Age), humanize.Comma(int64(h.Bytes)), since(h.ChangedAt))
		}
		if f := r.LastFetch; f != nil {
			s.printf("; fetched %s ago: %s", since(f.At), f.Summary())
		}
		if r.Failing && (r.LastFetch == nil || r.LastFetch.Error == "") {
			s.printf("; another replica's fetch failed")
		}
		s.printf("\n")
	}
}

func seconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Second)).Round(time.Second)
}

// level colours a level.
func (s *screen) level(l metrics.Level) painted {
	switch l {
	case metrics.Good:
		return s.good(l.String())
	case metrics.Down:
		return s.bad(l.String())
	case metrics.Degraded, metrics.Unknown:
	}
	return s.warn(l.String())
}

// operatorURL is the configured operator's address.
func operatorURL(cfg config.Config) (string, error) {
	if cfg.Admin.Listen == "" {
		return "", cfg.Refuse("admin.listen", errors.New("the operator's address is off; name another one with --url"))
	}
	base, err := baseURL(cfg.Admin.Listen)
	if err != nil {
		return "", cfg.Refuse("admin.listen", err)
	}
	return base, nil
}

const (
	statusTimeout = 5 * time.Second
	statusLimit   = 4 << 20 // bytes
)

// fetchStatus gets /api/status.
func fetchStatus(ctx context.Context, base string, token config.Secret) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	url := base + "/api/status"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil || request.URL.Host == "" {
		return nil, &usageError{fmt.Errorf("--url (flag): want an address such as http://127.0.0.1:9090, got %q", config.NewURL(base))}
	}
	if token.Reveal() != "" {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	client := &http.Client{
		// A proxy in the environment is for the CMS, and must not see the token.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, statusLimit))
	err = cmp.Or(err, response.Body.Close())
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", url, err)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("GET %s: it requires a token: set VITRINE_ADMIN_TOKEN or VITRINE_ADMIN_TOKEN_FILE", url)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: status %d", url, response.StatusCode)
	}
	return body, nil
}
