package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
)

// A Notice is something of a resource that a target is to be told once.
type Notice = lease.Notice

// A Claim is the right to tell a target of a notice, or why it was not granted.
type Claim = lease.Claim

// The outcomes of [Store.Claim].
const (
	ClaimGranted = lease.Granted
	ClaimHeld    = lease.Held
	ClaimPaused  = lease.Paused
	ClaimTold    = lease.Told
)

// Claim takes the right to tell a target, for so long, unless another process has it or has told.
func (s *Store) Claim(ctx context.Context, n Notice, lasting time.Duration) (Claim, error) {
	token := s.token()
	return call(ctx, s, n.Resource, func(r redis.Cmdable) (Claim, error) { return s.claims.Claim(ctx, r, n, token, lasting) })
}

// Told ends a claim: the target was told. Nobody tells it anything else of the resource before
// pause is over.
func (s *Store) Told(ctx context.Context, c Claim, pause time.Duration) (Claim, error) {
	return call(ctx, s, c.Resource, func(r redis.Cmdable) (Claim, error) { return s.claims.Told(ctx, r, c, pause) })
}

// ToldNot ends a claim: the target could not be told, so many times in a row. Nobody tries again
// before pause is over.
func (s *Store) ToldNot(ctx context.Context, c Claim, failures int, pause time.Duration) error {
	return s.do(ctx, c.Resource, func(r redis.Cmdable) error {
		_, err := s.claims.Failed(ctx, r, c, failures, pause)
		return err
	})
}
