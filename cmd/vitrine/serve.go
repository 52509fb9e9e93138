package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"

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
	server, err := newProcess(ctx, cfg.Log, p.stdout, p.stderr)
	if err != nil {
		return err
	}
	if err := server.begin(ctx, cfg); err != nil {
		return err
	}
	s := server.present.Load()
	if cfg.Log.Format == "text" {
		if _, err := p.stdout.Write([]byte(s.startup())); err != nil {
			return errors.Join(err, server.end(ctx), server.closeUnused())
		}
	}
	s.log.InfoContext(ctx, "serving", "address", s.public.Addr().String(), "upstream", s.client.String(), "redis", s.store.Addr(),
		"max_connections", maxConnections(cfg.Limits))
	if s.operator != nil {
		s.log.InfoContext(ctx, "operator's address", "address", s.operator.Addr().String(),
			"loopback", cfg.Admin.IsLoopback(), "token", cfg.Admin.Token.Reveal() != "")
	}
	var asked <-chan os.Signal
	if p.hangups != nil {
		asked = p.hangups()
	}
	return server.run(ctx, asked, func() (config.Config, error) { return c.load(p) })
}
