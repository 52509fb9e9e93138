package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
)

// showConfig prints the configuration in effect as YAML, and whether a running vitrine has it.
func showConfig(c *call, _ *flag.FlagSet) action {
	return func(ctx context.Context) (any, error) {
		cfg, _, err := c.find("")
		if err != nil {
			return nil, err
		}
		client, err := service.NewUpstream(cfg, nil) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
		if err != nil {
			return nil, err
		}
		client.Close() // it has checked the parts
		return document(fmt.Sprintf("# The configuration in effect; *** stands for a secret.\n# %s\n%s", compared(ctx, cfg), cfg.YAML())), nil
	}
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
