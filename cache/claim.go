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
	return s.tell(ctx, Claim{Notice: n, Token: s.token()}, lease.Granted, lasting, 0)
}

// Told ends a claim: the target was told. Nobody tells it anything else of the resource before
// pause is over.
func (s *Store) Told(ctx context.Context, c Claim, pause time.Duration) (Claim, error) {
	return s.tell(ctx, c, lease.Told, pause, 0)
}

// ToldNot ends a claim: the target could not be told, so many times in a row. Nobody tries again
// before pause is over.
func (s *Store) ToldNot(ctx context.Context, c Claim, failures int, pause time.Duration) error {
	_, err := s.tell(ctx, c, lease.Failed, pause, failures)
	return err
}

func (s *Store) tell(ctx context.Context, c Claim, end lease.Outcome, lasting time.Duration, failures int) (Claim, error) {
	return call(ctx, s, c.Resource, func(r redis.Cmdable) (Claim, error) { return lease.Tell(ctx, r, s.prefix, c, end, lasting, failures) })
}
