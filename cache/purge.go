package cache

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// hardScript removes a document, the lease of one that is being fetched, or whatever stands there instead. A lease alone is
// no document.
var hardScript = redis.NewScript(prelude + `
local held = kind() == 'hash' and redis.call('HGET', key, 'etag')
redis.call('DEL', key)
return held and 1 or 0`)

// softScript declares a document stale, or what is being fetched, and makes none where there is neither.
var softScript = redis.NewScript(prelude + `
if kind() ~= 'hash' then return 0 end
redis.call('HSET', key, 'fresh_until', 0)
return redis.call('HGET', key, 'etag') and 1 or 0`)

// Purge does what an operator's redis-cli would: DEL of the key, or, when soft, HSET fresh_until 0 if it is there.
// Every process on this Redis hears of it. It reports whether there was anything.
func (s *Store) Purge(ctx context.Context, key string, soft bool) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout(s.timeout)+s.timeout)
	defer cancel()
	script := hardScript
	if soft {
		script = softScript
	}
	n, err := script.Run(ctx, s.client, []string{s.prefix + key}).Int64()
	if err != nil {
		return false, fmt.Errorf("redis: %w", err)
	}
	return n > 0, nil
}
