package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/config"
	"vitrine/upstream/shape"
)

// purgeCommand purges as an operator would with redis-cli.
type purgeCommand struct {
	settingsFlags
	Resources []string `arg:"" optional:"" name:"resource" help:"catalogue, rules or banners; all of them by default."`
	Soft      bool     `help:"Keep serving the old document until the new one is there."`
}

// Run purges and prints the result for each key.
func (c *purgeCommand) Run(ctx context.Context, p program) error {
	resources := shape.Resources()
	if len(c.Resources) > 0 {
		resources = nil
	}
	for _, name := range c.Resources {
		r, err := resourceNamed("resource (argument)", name)
		if err != nil {
			return err
		}
		resources = append(resources, r)
	}
	cfg, warned, err := c.find(p, "redis.")
	if err == nil && warned && cfg.Origin("redis.url") == "default" {
		err = cfg.Refuse("redis.url", errors.New("it may be what the mistake above is about"))
	}
	if err != nil {
		return err
	}
	store, err := cache.Open(ctx, cache.Options{URL: purgeURL(cfg), Prefix: cfg.Redis.Prefix})
	if err != nil {
		return cfg.Refuse("redis.url", err)
	}
	defer func() { _ = store.Close() }() // the purge itself is done
	leaveNote(ctx, store, resources)
	did := "purged"
	if c.Soft {
		did = "purged softly"
	}
	for _, r := range resources {
		held, err := store.Purge(ctx, string(r), c.Soft)
		if err != nil {
			return fmt.Errorf("purge %s at %s: %w", r, store.Addr(), err)
		}
		line := did + " " + cfg.Redis.Prefix + string(r)
		if !held {
			line = cfg.Redis.Prefix + string(r) + " is not held"
		}
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// purgeURL is the store to purge: an embedded one is reached as a Redis, in the process that has
// it.
func purgeURL(cfg config.Config) string {
	if address, local := strings.CutPrefix(cfg.Redis.URL.Reveal(), "embedded:"); local {
		return embedded.URL(address)
	}
	return cfg.Redis.URL.Reveal()
}
