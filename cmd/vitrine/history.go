package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"vitrine/cache"
	"vitrine/upstream/plain"
)

// historyCommand lists what is kept of the resources, or prints a version.
type historyCommand struct {
	settingsFlags
	Resource *string `arg:"" optional:"" name:"resource" help:"catalogue, rules or banners; all of them by default."`
	Version  string  `arg:"" optional:"" name:"version" help:"Print this one."`
}

// Run lists, newest first, or prints the body exactly.
func (c *historyCommand) Run(ctx context.Context, p program) error {
	var names []string
	if c.Resource != nil {
		names = []string{*c.Resource}
	}
	resources, err := resourcesNamed(names)
	if err != nil {
		return err
	}
	cfg, store, err := c.openStore(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it was read alone
	if c.Version != "" {
		body, err := store.Version(ctx, names[0], c.Version)
		if err != nil {
			return fmt.Errorf("%s of %s at %s: %w", c.Version, names[0], store.Addr(), err)
		}
		_, err = p.stdout.Write(body)
		return err
	}
	screen := &screen{w: p.stdout}
	for i, r := range resources {
		all, err := store.History(ctx, string(r))
		if err != nil {
			return fmt.Errorf("history of %s at %s: %w", r, store.Addr(), err)
		}
		present, err := store.Present(ctx, string(r))
		if err != nil {
			return fmt.Errorf("%s at %s: %w", r, store.Addr(), err)
		}
		if i > 0 {
			screen.printf("\n")
		}
		screen.printf("%s%s\n", cfg.Redis.Prefix, r)
		for _, v := range all {
			screen.printf("  %s  %s  %12s  %16s%s", v.Name, v.At.UTC().Format(time.RFC3339),
				english.Plural(v.Items, "item", "items"), english.Plural(v.Bytes, "byte", "bytes"), servedNow(v, present.Document))
			if v.Changes != "" {
				screen.printf("  %s", v.Changes)
			}
			screen.printf("\n")
		}
		if len(all) == 0 {
			screen.printf("  nothing is kept\n")
		}
	}
	return screen.flush()
}

// servedNow marks the version that is held.
func servedNow(v cache.Version, held *cache.Document) string {
	switch {
	case held == nil || v.Name != cache.VersionOf(held.Body):
		return ""
	case held.PinnedUntil.IsZero():
		return "  served"
	}
	return "  served, pinned by " + plain.Clip(held.PinnedBy, 100) + " until " + held.PinnedUntil.UTC().Format(time.RFC3339)
}

// restoreCommand serves a version of the history, or ends that.
type restoreCommand struct {
	settingsFlags
	Resource string        `arg:"" name:"resource" help:"catalogue, rules or banners."`
	Version  string        `arg:"" name:"version" help:"One that vitrine history lists; or latest: what the CMS has."`
	For      time.Duration `name:"for" default:"2h" help:"For how long nothing is fetched, at most 720h."`
}

// Run restores, and says until when.
func (c *restoreCommand) Run(ctx context.Context, p program) error {
	r, err := resourceNamed("resource (argument)", c.Resource)
	if err != nil {
		return err
	}
	if c.Version != cache.Latest && !cache.IsVersion(c.Version) {
		return &usageError{fmt.Errorf("version (argument): want 12 hexadecimal digits, as vitrine history %s lists them, or latest, got %q", r, c.Version)}
	}
	if c.For < time.Second || c.For > cache.MostPin {
		return &usageError{fmt.Errorf("--for (flag): want 1s to %.0fh, got %v", cache.MostPin.Hours(), c.For)}
	}
	cfg, store, err := c.openStore(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // what it did is done
	name := cfg.Redis.Prefix + string(r)
	if c.Version == cache.Latest {
		was, err := store.Unpin(ctx, string(r))
		if err != nil {
			return fmt.Errorf("restore %s at %s: %w", r, store.Addr(), err)
		}
		done := name + " is no longer pinned, and is fetched again"
		if !was {
			done = name + " is not pinned"
		}
		_, err = fmt.Fprintln(p.stdout, done)
		return err
	}
	until, err := store.Restore(ctx, string(r), c.Version, c.For, author())
	if errors.Is(err, cache.ErrNoVersion) {
		return fmt.Errorf("%s of %s: %w; vitrine history %s lists what is there", c.Version, r, err, r)
	} else if err != nil {
		return fmt.Errorf("restore %s at %s: %w", r, store.Addr(), err)
	}
	_, err = fmt.Fprintf(p.stdout, "restored %s to %s, pinned until %s; vitrine restore %s latest ends that\n", name, c.Version, until.UTC().Format(time.RFC3339), r)
	return err
}
