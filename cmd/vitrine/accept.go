package main

import (
	"context"
	"fmt"
)

// acceptCommand accepts what is held back, as an operator would with redis-cli.
type acceptCommand struct {
	settingsFlags
	Resource string `arg:"" name:"resource" help:"catalogue, rules or banners."`
}

// Run accepts, and prints what follows from that.
func (c *acceptCommand) Run(ctx context.Context, p program) error {
	r, err := resourceNamed("resource (argument)", c.Resource)
	if err != nil {
		return err
	}
	cfg, store, err := c.openStore(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // what was to be written is
	held, back, err := store.Accept(ctx, string(r))
	key := cfg.Redis.Prefix + string(r)
	text := "accepted: the next " + key + " is taken, whatever it lacks"
	switch {
	case err != nil:
		return fmt.Errorf("accept %s at %s: %w", r, store.Addr(), err)
	case !held:
		text = key + " is not held: what is fetched next is taken anyway"
	case back:
		text = "accepted: " + key + " is fetched again, and taken"
	}
	_, err = fmt.Fprintln(p.stdout, text)
	return err
}
