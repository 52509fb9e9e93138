package service

import (
	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// Guard judges the documents of a resource; nil if none is to be held back.
func Guard(r shape.Resource, share config.Share) func(held, loaded *cache.Document) *cache.Objection {
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
func acceptWith(redisURL, prefix string, r shape.Resource) string {
	return redisCLI(redisURL, "HSET", prefix+string(r), "accept", "1")
}

// HeldBack is what is held back of r in the Redis of a configuration, for the status; nil for
// nothing.
func HeldBack(cfg config.Config, r shape.Resource, h *cache.HeldBack) *metrics.HeldBack {
	return heldBack(storeURL(cfg), cfg.Redis.Prefix, r, h)
}

func heldBack(redisURL, prefix string, r shape.Resource, h *cache.HeldBack) *metrics.HeldBack {
	if h == nil {
		return nil
	}
	out := &metrics.HeldBack{Since: h.Since, Reason: h.Reason, Before: h.Before, Now: h.Now, Command: acceptWith(redisURL, prefix, r)}
	if !h.Until.IsZero() {
		out.Until = &h.Until
	}
	return out
}
