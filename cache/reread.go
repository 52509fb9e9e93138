package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// A reread is the reading of a body that another process has filled.
type reread[V any] struct {
	of    lease.Generation
	since time.Duration
	etag  string     // that was found
	copy  *cached[V] // nil: it cannot be used, or not be read
	done  bool       // the next poll takes it: until then, no load begins instead
}

const (
	// rereads is how often a body is tried that cannot be read, and rereadPause is the pause after each.
	rereads     = 3
	rereadPause = 100 * time.Millisecond
)

// read reads the body of a generation, beside the keeper.
func (k *keeper[V]) read(at lease.Generation, size int64) {
	if k.reading != nil {
		return
	}
	b := &reread[V]{of: at, since: poll.Now()}
	k.reading = b
	k.store.tasks.Go(func() {
		defer k.member.Wait()()
		for try := 1; ; try++ {
			if k.readOnce(b, size); b.etag != "" || try == rereads || !poll.Sleep(k.store.ctx, rereadPause) {
				break
			}
		}
		select {
		case k.bodies <- b:
		case <-k.store.ctx.Done():
		}
	})
}

func (k *keeper[V]) readOnce(b *reread[V], size int64) {
	_ = k.member.Do(k.store.ctx, size, func(ctx context.Context, c *redis.Client) error {
		got, err := k.hash.Read(ctx, c)
		if err != nil {
			return err
		}
		n := &cached[V]{doc: &Document{
			Body: got.Body, ETag: got.ETag, UpstreamETag: got.UpstreamETag, UpstreamLastModified: got.UpstreamLastModified,
		}}
		if b.etag = got.ETag; ETag(got.Body) == got.ETag {
			if n.value, err = k.prepare(n.doc); err == nil {
				b.copy = n
			}
		}
		return err
	})
}

// took has what was read taken by the next poll. A body that cannot be used, or be read at no time, is
// fetched anew.
func (k *keeper[V]) took(b *reread[V]) {
	if b != k.reading { // nobody waits for it any more
		return
	}
	b.done = true
	switch {
	case b.copy != nil:
		k.brought = b.copy
	case b.etag == "" || b.etag == b.of.ETag: // else another one is there by now, and is read
		if k.damaged != b.of && k.store.o.Events.Damaged != nil {
			k.store.o.Events.Damaged(k.key)
		}
		k.damaged = b.of
	}
	k.member.Ask()
}
