package service

import (
	"sync"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// comparisons make each comparison of two documents once: the history, the log and the targets that
// are told ask for the same one. The zero value has none.
type comparisons struct {
	mu   sync.Mutex // held while one is made, for which the others wait
	last map[shape.Resource]comparison
}

// comparison is of the documents with these etags.
type comparison struct {
	before, after string
	changes       shape.Changes
}

func (c *comparisons) of(r shape.Resource, before, after *cache.Document) shape.Changes {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[r]; last.before == before.ETag && last.after == after.ETag {
		return last.changes
	}
	if c.last == nil {
		c.last = map[shape.Resource]comparison{}
	}
	made := comparison{before.ETag, after.ETag, shape.Compare(r, before.Body, after.Body)}
	c.last[r] = made
	return made.changes
}

// describe describes documents of r for the history.
func (c *comparisons) describe(r shape.Resource) func(before, now *cache.Document) (items int, changes string) {
	return func(before, now *cache.Document) (items int, changes string) {
		if before != nil {
			changes = c.of(r, before, now).String()
		}
		return shape.CountItems(r, now.Body), changes
	}
}
