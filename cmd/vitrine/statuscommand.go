package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"vitrine/config"
	"vitrine/proxy/operator"
)

// statusCommand shows in a terminal what the operator's page shows in a
// browser.
type statusCommand struct {
	settingsFlags
	URL   string        `name:"url" placeholder:"URL" help:"Ask the operator's address of another vitrine, such as http://10.0.0.7:9090."`
	JSON  bool          `name:"json" help:"Show /api/status as it is; with --watch a line each time."`
	Watch bool          `short:"w" help:"Go on showing it until interrupted."`
	Every time.Duration `default:"2s" help:"How often to ask with --watch (${default})."`
}

// Help shows what to type.
func (statusCommand) Help() string {
	return "Asks the operator's address that the configuration names, with its token. " +
		"Exit code 0: it answered; 1: it did not. Colours only on a terminal, and not where NO_COLOR is set.\n\n" + examples(
		"vitrine status",
		"vitrine status --watch",
		"vitrine status --json | jq .resources.banners",
		"VITRINE_ADMIN_TOKEN_FILE=/run/secrets/operator vitrine status --url http://10.0.0.7:9090",
	)
}

// Run asks once, or until ctx ends.
func (c *statusCommand) Run(ctx context.Context, p program) error {
	if c.Every < 100*time.Millisecond {
		return &usageError{fmt.Errorf("--every (flag): want 100ms or more, got %q", c.Every)}
	}
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	base := c.URL
	if base == "" {
		if base, err = operatorURL(cfg); err != nil {
			return err
		}
	}
	screen := newScreen(p)
	ask := func() error {
		body, err := askStatus(ctx, strings.TrimSuffix(base, "/"), cfg.Admin.Token)
		if err != nil {
			return err
		}
		return c.show(screen, base, body)
	}
	if !c.Watch {
		return ask()
	}
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		screen.clear()
		// One that is being restarted comes back: a watch goes on.
		if err := ask(); err != nil && ctx.Err() == nil {
			if errors.As(err, new(*usageError)) {
				return err
			}
			screen.printf("%s %s\n", screen.bad("no answer:"), err)
		}
		if err := screen.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // interrupted, as it is meant to be
		case <-tick.C:
		}
	}
}

// show writes what was answered.
func (c *statusCommand) show(screen *screen, base string, body []byte) error {
	if c.JSON {
		if c.Watch {
			var line strings.Builder
			if err := json.NewEncoder(&line).Encode(json.RawMessage(body)); err != nil {
				return fmt.Errorf("%s/api/status: %w", base, err)
			}
			body = []byte(line.String())
		}
		screen.printf("%s", body)
		return screen.flush()
	}
	var told operator.Status
	if err := json.Unmarshal(body, &told); err != nil {
		return fmt.Errorf("%s/api/status: %w", base, err)
	}
	view{screen: screen, now: time.Now()}.show(base, &told)
	return screen.flush()
}

// operatorURL is where the configured vitrine's operator's address is.
func operatorURL(cfg config.Config) (string, error) {
	if cfg.Admin.Listen == "" {
		return "", cfg.Refuse("admin.listen", errors.New("status has nobody to ask; name an address with --url"))
	}
	base, err := baseURL(cfg.Admin.Listen)
	if err != nil {
		return "", cfg.Refuse("admin.listen", err)
	}
	return base, nil
}

const (
	statusPatience = 5 * time.Second
	statusLimit    = 4 << 20 // bytes
)

// askStatus gets /api/status.
func askStatus(ctx context.Context, base string, token config.Secret) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
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
		// A proxy from the environment is for the CMS. It is not shown the token.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, statusLimit))
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", url, err)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("GET %s: it asks for a token: set VITRINE_ADMIN_TOKEN or VITRINE_ADMIN_TOKEN_FILE to its own", url)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: status %d", url, response.StatusCode)
	}
	return body, nil
}
