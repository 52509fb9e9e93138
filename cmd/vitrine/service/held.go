package service

import (
	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/processors"
	"vitrine/proxy/represent"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// Policy is the guard of a configuration.
func Policy(cfg config.Config) guard.Policy {
	return guard.Policy{Shrink: float64(cfg.Guard.Shrink), Hold: cfg.Guard.Hold}
}

// HeldBack is what is held back of r with the command that accepts it; nil for nothing.
func HeldBack(r shape.Resource, h *guard.Hold) *guard.Hold {
	if h == nil {
		return nil
	}
	told := *h
	told.Command = "vitrine accept " + string(r)
	return &told
}

// CanServe checks whether this program can serve a document of r.
func CanServe(r shape.Resource) func(*cache.Document) error {
	prepare := represent.Prepare(r, processors.New())
	return func(d *cache.Document) error {
		_, err := prepare(d)
		return err
	}
}

// describe describes documents of r for the history.
func describe(r shape.Resource) func(before, now *cache.Document) (items int, changes string, reordered bool) {
	return func(before, now *cache.Document) (items int, changes string, reordered bool) {
		if before != nil {
			all := shape.Compare(r, before.Body, now.Body)
			changes, reordered = all.String(), all.Reordered()
		}
		return shape.CountItems(r, now.Body), changes, reordered
	}
}
