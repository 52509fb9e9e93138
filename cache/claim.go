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
	ClaimFailed  = lease.Failed
)

// Claim takes a claim for so long, unless another process has it or has told. With the outcome
// [ClaimTold] or [ClaimFailed], after its Failures in a row, it ends the claim, and nobody tells the
// target anything else of the resource for so long.
func (s *Store) Claim(ctx context.Context, claim Claim, lasting time.Duration) (Claim, error) {
	if claim.Token == "" {
		claim.Token = s.token()
	}
	return call(ctx, s, claim.Resource, func(c redis.Cmdable) (Claim, error) { return claim.Write(ctx, c, s.prefix, lasting) })
}
