package main

import "log/slog"

// configCommand prints the configuration in effect.
type configCommand struct {
	settingsFlags
}

// Run prints the configuration as YAML.
func (c *configCommand) Run(p program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	client, err := newUpstream(cfg, slog.New(slog.DiscardHandler), nil) // which reads the parts
	if err != nil {
		return err
	}
	client.Close()
	_, err = p.stdout.Write(cfg.YAML())
	return err
}
