package main

import (
	"context"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

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

// describeChanges notes and logs what changed with each document, until ctx ends. The last one of each
// is kept beyond a purge, to be compared with the next.
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
				s.meter.Changed(r, what)
				s.log.InfoContext(ctx, "document changed", "resource", r, "changes", what)
			}
		}
	}
}

// describeFor describes documents of r for the history.
func describeFor(r shape.Resource) func(before, body []byte) (items int, changes string) {
	return func(before, body []byte) (items int, changes string) {
		if before != nil {
			changes = shape.Compare(r, before, body).String()
		}
		return shape.CountItems(r, body), changes
	}
}
