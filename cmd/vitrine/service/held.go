package main

import (
	"context"
	"time"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/operator"
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

// heldBackIn is what is held back in the store of a configuration, as far as it can be reached.
func heldBackIn(ctx context.Context, cfg config.Config, store *cache.Store) map[shape.Resource]*operator.HeldBack {
	all := make(map[shape.Resource]*operator.HeldBack)
	for _, r := range shape.Resources() {
		present, err := store.Present(ctx, string(r))
		if err != nil {
			break
		}
		if h := present.HeldBack; h != nil {
			all[r] = heldBack(h, acceptWith(cfg, store.Addr(), r))
		}
	}
	return all
}

// logHeld logs that a document is held back, by whichever replica, or that none is any longer, and
// has targets told.
func (s *service) logHeld(key string, h *cache.HeldBack) {
	at, reason := time.Now(), ""
	if h != nil {
		at, reason = h.Since, h.Reason
	}
	s.notifier.Held(key, at, reason)
	if !s.isPresent() { // it tells targets what the one before may not have told, and logs nothing
		return
	}
	log := s.log.With("resource", key)
	if h == nil {
		log.Info("no document is held back any more")
		return
	}
	log.Warn("holding back the CMS's document", "reason", h.Reason, "since", h.Since.UTC().Format(time.RFC3339),
		"until", h.Until.UTC().Format(time.RFC3339), "serving", "the copy held", "accept", acceptWith(s.cfg, s.store.Addr(), shape.Resource(key)))
}
