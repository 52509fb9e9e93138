package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/upstream/plain"
)

// purgeCommand purges as an operator would with redis-cli.
type purgeCommand struct {
	settingsFlags
	Resources []string `arg:"" optional:"" name:"resource" help:"catalogue, rules or banners; all of them by default."`
	History   bool     `help:"Forget the earlier versions too."`
	Soft      bool     `help:"Keep serving the old document until the new one is there."`
}

// Run purges and prints the result for each key.
func (c *purgeCommand) Run(ctx context.Context, p program) error {
	resources, err := resourcesNamed(c.Resources)
	if err != nil {
		return err
	}
	if c.Soft && c.History {
		return &usageError{errors.New("--history (flag): want a hard purge, got --soft")}
	}
	cfg, store, err := c.openStore(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // the purge itself is done
	service.LeaveNote(ctx, store, author(), resources)
	did := "purged"
	if c.Soft {
		did = "purged softly"
	}
	for _, r := range resources {
		purge := func() (bool, error) { return store.Purge(ctx, string(r), c.Soft) }
		if c.History {
			purge = func() (bool, error) { return store.Forget(ctx, string(r)) }
		}
		soon, cancel := context.WithTimeout(ctx, maxRead)
		present, _ := store.Present(soon, string(r)) // without it the purge is made all the same
		cancel()
		held, err := purge()
		if err != nil {
			return fmt.Errorf("purge %s at %s: %w", r, store.Addr(), err)
		}
		line := did + " " + cfg.Redis.Prefix + string(r)
		if !held {
			line = cfg.Redis.Prefix + string(r) + " is not held"
		}
		if c.History {
			line += "; its history is forgotten"
		}
		for _, obstacle := range obstacles(present, string(r), c.Soft) {
			line += "\n  " + obstacle
		}
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// maxRead is how long a purge may wait for what is said about it.
const maxRead = time.Second

// obstacles say why a purge does not have the CMS's present document served, and what changes that.
// A hard purge ends a pin and a hold.
func obstacles(p cache.Present, resource string, soft bool) (all []string) {
	if d := p.Document; soft && d != nil && p.Now.Before(d.PinnedUntil) {
		return []string{fmt.Sprintf("but pinned by %s: nothing is fetched until %s, or: vitrine restore %s latest",
			plain.Clip(d.PinnedBy, 100), d.PinnedUntil.UTC().Format(time.RFC3339), resource)}
	}
	if h := p.HeldBack; soft && h != nil && !p.Accepted {
		all = append(all, fmt.Sprintf("but the CMS's document was held back (%s), and may be again; to accept it: vitrine accept %s", plain.Clip(h.Reason, 200), resource))
	}
	if p.Failure != "" {
		until := "visitors get errors until one succeeds"
		if soft && p.Document != nil {
			until = "the old copy is served until one succeeds"
		}
		all = append(all, fmt.Sprintf("but the last fetch failed (%s): %s; to see why: vitrine check", plain.Clip(p.Failure, 100), until))
	}
	return all
}
