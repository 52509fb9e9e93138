package main

import "log/slog"

// configCommand prints the configuration in effect.
type configCommand struct {
	settingsFlags
}

// Help shows what to type.
func (configCommand) Help() string {
	return "The output can be used as the file. Secrets are masked.\n\n" + examples(
		"vitrine config",
		"VITRINE_TTL=5m vitrine config --config vitrine.yaml",
	)
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
