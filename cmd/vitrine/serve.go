package main

import (
	"context"
	"os"
	"runtime/debug"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
)

// serveCommand runs the proxy.
type serveCommand struct {
	settingsFlags
}

// gcPercent has garbage collected at half as much again as is in use, instead of twice that. It
// costs only those who make garbage, as attackers do: a hit makes none.
const gcPercent = 50

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, p program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	o := service.Options{Version: release(), Stdout: p.stdout, Stderr: p.stderr, Reload: func() (config.Config, error) { return c.load(p) }}
	if p.hangups != nil {
		o.Hangups = p.hangups()
	}
	return service.Run(ctx, cfg, o)
}
