package main

import (
	"context"

	"vitrine/upstream/shape"
)

// A change is another document in memory.
type change struct {
	resource shape.Resource
	body     []byte
}

// describeChanges notes and logs what changed with each document, until ctx ends. The last one of each
// is kept beyond a purge, to be compared with the next.
func (s *service) describeChanges(ctx context.Context) {
	last := map[shape.Resource][]byte{}
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.changes:
			before := last[c.resource]
			if last[c.resource] = c.body; before == nil || !s.isPresent() {
				continue
			}
			if what := shape.Compare(c.resource, before, c.body).String(); what != "" {
				s.meter.Changed(c.resource, what)
				s.log.InfoContext(ctx, "document changed", "resource", c.resource, "changes", what)
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
