package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// guard judges the documents of a resource; nil if none is to be held back.
func guard(r shape.Resource, share config.Share) func(held, loaded *cache.Document) *cache.Objection {
	if share == 0 {
		return nil
	}
	return func(held, loaded *cache.Document) *cache.Objection {
		loss := shape.Judge(r, held.Body, loaded.Body, float64(share))
		if loss == nil {
			return nil
		}
		return &cache.Objection{Reason: loss.Reason, Before: loss.Before, Now: loss.Now, Lasting: loss.Lasting}
	}
}

// acceptWith is the command that accepts the next document of r.
func acceptWith(cfg config.Config, address string, r shape.Resource) string {
	return redisCLI(cfg.Redis.URL.Reveal(), address) + " HSET " + quoted(cfg.Redis.Prefix+string(r)) + " accept 1"
}

// heldBack is what is held back of r, for the status; nil for nothing.
func heldBack(h *cache.HeldBack, command string) *operator.HeldBack {
	if h == nil {
		return nil
	}
	out := &operator.HeldBack{Since: h.Since, Reason: h.Reason, Before: h.Before, Now: h.Now, Command: command}
	if !h.Until.IsZero() {
		out.Until = &h.Until
	}
	return out
}

// heldBackIn is what is held back in the Redis of a configuration, as far as it can be reached.
func heldBackIn(ctx context.Context, cfg config.Config) map[shape.Resource]*operator.HeldBack {
	all := make(map[shape.Resource]*operator.HeldBack)
	store, err := cache.Open(ctx, cache.Options{URL: storeURL(cfg), Prefix: cfg.Redis.Prefix})
	if err != nil {
		return all // it was refused before
	}
	for _, r := range shape.Resources() {
		h, err := store.HeldBack(ctx, string(r))
		if err != nil {
			break
		}
		if h != nil {
			all[r] = heldBack(h, acceptWith(cfg, store.Addr(), r))
		}
	}
	_ = store.Close() // it was only read
	return all
}

// logHeld logs that a document is held back, by whichever replica, or that none is any longer, and has
// targets told.
func (s *service) logHeld(key string, h *cache.HeldBack) {
	if !s.isPresent() {
		return
	}
	log := s.log.With("resource", key)
	if h == nil {
		s.notifier.Held(key, time.Now(), "")
		log.Info("no document is held back any more")
		return
	}
	s.notifier.Held(key, h.Since, h.Reason)
	log.Warn("holding back the CMS's document", "reason", h.Reason, "since", h.Since.UTC().Format(time.RFC3339),
		"until", h.Until.UTC().Format(time.RFC3339), "serving", "the copy held", "accept", acceptWith(s.cfg, s.store.Addr(), shape.Resource(key)))
}

// suspicionsOf are those that stand with a document; none if there is none, or they cannot be read.
func suspicionsOf(d *cache.Document) []upstream.Suspicion {
	all := []upstream.Suspicion{}
	if d == nil || d.Suspicions == "" || json.Unmarshal([]byte(d.Suspicions), &all) != nil {
		return []upstream.Suspicion{}
	}
	return all
}

// suspicionsText is their form with the document.
func suspicionsText(all []upstream.Suspicion) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // texts and numbers
	return string(text)
}

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
