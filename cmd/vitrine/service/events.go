package service

import (
	"context"
	"time"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// events count what the store reports. While two services run, both receive each purge: the present
// one counts it.
func (s *service) events() cache.Events {
	return cache.Events{
		Purged: func(key, kind string) {
			if !s.isPresent() {
				return
			}
			s.meter.Purged(key, kind)
			s.roster.received(shape.Resource(key))
		},
		Seen: s.saw, Fetched: s.meter.Fetched, Incoherent: s.meter.Incoherent, Damaged: s.meter.Damaged, Held: s.logHeld,
	}
}

// saw passes on what the store sees of a resource, to the notifier and to describeChanges.
func (s *service) saw(sight cache.Sight) {
	s.notifier.Seen(sight)
	if sight.Document == nil {
		return
	}
	select {
	case s.documents <- sight:
	default: // nobody has time to compare it
	}
}

// describeChanges notes and logs what changed with each document, until ctx ends. The last one of
// each is kept beyond a purge, to be compared with the next.
func (s *service) describeChanges(ctx context.Context) {
	last := map[string]*cache.Document{}
	for {
		select {
		case <-ctx.Done():
			return
		case sight := <-s.documents:
			before, r := last[sight.Key], shape.Resource(sight.Key)
			if last[sight.Key] = sight.Document; before == nil || before.ETag == sight.Document.ETag || !s.isPresent() {
				continue
			}
			if what := s.compared.of(r, before, sight.Document).String(); what != "" {
				s.meter.Changed(r, what)
				s.log.InfoContext(ctx, "document changed", "resource", r, "changes", what)
			}
		}
	}
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
		"until", h.Until.UTC().Format(time.RFC3339), "serving", "the copy held", "accept", acceptWith(s.redisURL, s.cfg.Redis.Prefix, shape.Resource(key)))
}
