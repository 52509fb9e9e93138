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
// prefix: for d, or until release is called, which may be done more than once.
// It reports false while another has it. While Redis is away each process is
// on its own and gets what it claims.
func (s *Store) Claim(ctx context.Context, name string, d time.Duration) (release func(), ok bool) {
	if !s.Up() {
		return func() {}, true
	}
	token := s.token()
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got, err := s.run(asking, claimScript, name, token, max(d.Milliseconds(), 1))
	if err != nil {
		if ctx.Err() == nil {
			s.failed(err)
		}
		return func() {}, true
	}
	if got.text(0) != granted {
		return nil, false
	}
	return sync.OnceFunc(func() {
		// The claim is given back even where ctx is over by now; what is not, expires.
		giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		_, _ = s.run(giving, claimScript, name, token, 0)
	}), true
}
