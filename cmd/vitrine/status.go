package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	neturl "net/url"
	"strings"
	"time"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream/outbound"
)

// statusReport is /api/status of a running vitrine.
type statusReport struct {
	operator.Status
	Base string
	body json.RawMessage
}

// MarshalJSON returns what was received.
func (r statusReport) MarshalJSON() ([]byte, error) { return r.body, nil } //nolint:unparam // an interface has it so

func (r statusReport) failed() bool { return r.Verdict.Affected }

// Up is how long it has run.
func (r statusReport) Up() time.Duration { return r.Now.Sub(r.Started).Round(time.Second) }

const statusTimeout = 5 * time.Second

// status prints the verdict of a running vitrine, what to do, and its documents.
func status(c *call, f *flag.FlagSet) action {
	url := f.String("url", "", "the admin address of another vitrine, a `URL` such as http://10.0.0.7:9090")
	return func(ctx context.Context) (any, error) {
		cfg, _, err := c.find("admin.", "last_good")
		if err != nil {
			return nil, err
		}
		r := statusReport{}
		if r.Base, r.body, err = requestStatus(ctx, cfg, *url); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(r.body, &r.Status); err != nil {
			return nil, fmt.Errorf("%s/api/status: %w", r.Base, err)
		}
		return r, nil
	}
}

// requestStatus requests the status of the vitrine at base, or at the configured admin
// address.
func requestStatus(ctx context.Context, cfg config.Config, base string) (at string, body []byte, err error) {
	if base = strings.TrimSuffix(base, "/"); base == "" {
		if cfg.Admin.Listen == "" {
			return "", nil, cfg.Refuse("admin.listen", errors.New("the admin address is off; name another one with --url"))
		}
		if base, err = service.BaseURL(cfg.Admin.Listen); err != nil {
			return "", nil, cfg.Refuse("admin.listen", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err = get(ctx, base+"/api/status", outbound.New(0), cfg.Admin.Token)
	if u, no := neturl.Parse(base); no == nil {
		base = u.Scheme + "://" + u.Host // without a password
	}
	return base, body, err
}
