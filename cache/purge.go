package cache

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// EmbeddedAddr is where the embedded store of a process listens when its URL names no address and nobody was there
// before it.
const EmbeddedAddr = embeddedAddr

// softScript declares a document stale, and makes none where there is none.
var softScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'fresh_until', 0)
return 1`)

// Purge does what an operator's redis-cli would: DEL of the key, or, when soft, HSET fresh_until 0 if it is there.
// Every process on this Redis hears of it. It reports whether there was anything.
func (s *Store) Purge(ctx context.Context, key string, soft bool) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout(s.timeout)+s.timeout)
	defer cancel()
	var n int64
	if soft {
		n, err = softScript.Run(ctx, s.client, []string{s.prefix + key}).Int64()
	} else {
		n, err = s.client.Del(ctx, s.prefix+key).Result()
	}
	if err != nil {
		return false, fmt.Errorf("redis: %w", err)
	}
	return n > 0, nil
}
