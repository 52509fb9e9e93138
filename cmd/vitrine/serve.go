package main

import (
	"context"
	"flag"
	"os"
	"runtime/debug"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
)

// gcPercent has garbage collected at half as much again as is in use, instead of twice that. It
// costs only those who make garbage, as attackers do: a hit makes none.
const gcPercent = 50

// serve serves until ctx ends.
func serve(c *call, _ *flag.FlagSet) action {
	return func(ctx context.Context) (any, error) {
		made := config.Secret{} // the token that this process has made, if it is kept nowhere else
		load := func() (cfg config.Config, err error) {
			if cfg, err = config.Load(c.sources()); err != nil {
				return cfg, err
			}
			return cfg, cfg.MakeToken(&made)
		}
		cfg, err := load()
		if err != nil {
			return nil, err
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		o := service.Options{Version: release(), Stdout: c.stdout, Stderr: c.stderr, Reload: load}
		if c.hangups != nil {
			o.Hangups = c.hangups()
		}
		return nil, service.Run(ctx, cfg, o)
	}
}
