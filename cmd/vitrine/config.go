package main

import (
	"context"
	"encoding/json"
	"fmt"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
)

// configCommand prints the configuration in effect.
type configCommand struct {
	settingsFlags
}

// Run prints the configuration as YAML, and whether a running vitrine has it.
func (c *configCommand) Run(ctx context.Context, p program) error {
	cfg, _, err := c.find(p, everySetting)
	if err != nil {
		return err
	}
	client, err := service.NewUpstream(cfg, nil, nil) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
	if err != nil {
		return err
	}
	client.Close() // it has checked the parts
	_, err = fmt.Fprintf(p.stdout, "# %s\n%s", compared(ctx, cfg), cfg.YAML())
	return err
}

// compared tells whether the running vitrine has cfg.
func compared(ctx context.Context, cfg config.Config) string {
	base, body, err := requestStatus(ctx, cfg, "")
	var running operator.Status
	if err != nil || json.Unmarshal(body, &running) != nil {
		return "No running vitrine could be asked whether it has this configuration."
	}
	if running.Settings != cfg.Fingerprint() {
		return "The vitrine at " + base + " has another configuration; a reload or restart makes it read its own again."
	}
	return "The vitrine at " + base + " has this configuration, secrets apart."
}
