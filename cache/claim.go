package cache

import (
	"context"
	_ "embed" // the script
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/claim.lua
	claimLua string

	claimScript = redis.NewScript(prelude + claimLua)
)

// Claim takes name for this process, among all that share the Redis and the
// prefix: for d, or until release is called. Release keeps it for as long as it
// says, from then on; 0 gives it back at once. Only its first call counts.
// Claim reports false while another has the name. While Redis is away each
// process is on its own and gets what it claims.
func (s *Store) Claim(ctx context.Context, name string, d time.Duration) (release func(keep time.Duration), ok bool) {
	free := func(time.Duration) {}
	if !s.Up() {
		return free, true
	}
	token := s.token()
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got, err := s.run(asking, claimScript, name, token, max(d.Milliseconds(), 1), "claim")
	if err != nil {
		if ctx.Err() == nil {
			s.failed(err)
		}
		return free, true
	}
	if got.text(0) != granted {
		return nil, false
	}
	var once sync.Once
	return func(keep time.Duration) {
		once.Do(func() {
			// This is done even where ctx is over by now. Where it cannot be, the claim expires.
			giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
			defer cancel()
			_, _ = s.run(giving, claimScript, name, token, keep.Milliseconds(), "keep")
		})
	}, true
}
