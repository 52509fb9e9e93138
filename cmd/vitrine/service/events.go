package service

import (
	"context"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/guard"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// purges are the events of the store's kinds of purge.
var purges = map[string]string{"hard": metrics.KindPurge, "soft": metrics.KindSoftPurge}

// events count what the store reports. While two services run, both receive each purge: the present
// one counts it.
func (s *service) events() cache.Events {
	return cache.Events{
		Purged: func(key, kind, by string) {
			if s.isPresent() {
				s.meter.Note(purges[kind], key, sanitize.Clip(by, 100))
			}
			if l := s.loaders[shape.Resource(key)]; l != nil && kind == "soft" {
				l.Purged()
			}
		},
		Seen: s.saw, Fetched: s.meter.Fetched, Damaged: s.meter.Damaged, Held: s.logHeld,
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
			if what := shape.Compare(r, before.Body, sight.Document.Body).String(); what != "" {
				s.meter.Note(metrics.KindChange, sight.Key, what)
				s.log.InfoContext(ctx, "document changed", "resource", r, "changes", what)
			}
		}
	}
}

// logHeld logs that a document is held back, by whichever replica, or no longer, and has targets
// notified.
func (s *service) logHeld(key string, h *guard.Hold, end guard.End) {
	h = HeldBack(shape.Resource(key), h)
	s.notifier.Held(key, h, end)
	if !s.isPresent() { // it notifies targets of what the one before may not have, and logs nothing
		return
	}
	log := s.log.With("resource", key, "reason", h.Reason, "since", h.Since.UTC().Format(time.RFC3339))
	if end == "" {
		s.meter.Note(metrics.KindHeld, key, h.Reason)
	} else {
		s.meter.Note(metrics.KindReleased, key, string(end)+": "+h.Reason)
	}
	switch end {
	case "":
		log.Warn("holding back the CMS's document", "until", h.Until.UTC().Format(time.RFC3339), "serving", "the cached copy", "accept", h.Command)
	case guard.Expired:
		log.Warn("a document is served that was held back until now", "released", end)
	default:
		log.Info("no document is held back any more", "released", end)
	}
}
