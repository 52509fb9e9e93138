package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
)

// What replicas agree on about notifications is described in package lease.
type (
	// Notice is what is to be sent.
	Notice = lease.Notice
	// NotifyState is what was sent last.
	NotifyState = lease.NotifyState
)

// The topics of notices, the values of an outage, and the outcomes of a notification.
const (
	TopicContent  = lease.TopicContent
	TopicOutage   = lease.TopicOutage
	TopicHold     = lease.TopicHold
	OutageFailing = lease.Failing
	OutageWell    = lease.Well
	NotifyBusy    = lease.Busy
	NotifyKnown   = lease.Notified
	// NotifyTime is how long one attempt may take.
	NotifyTime = lease.SendTime
)

// Notify has one replica send a notice: see [lease.Notice.Send]. It fails if Redis does, and then has
// not called send.
func (s *Store) Notify(ctx context.Context, n Notice, send func(NotifyState) (sent bool, pause time.Duration)) (NotifyState, error) {
	return n.Send(ctx, s.o.Prefix, func(ctx context.Context, f func(context.Context, *redis.Client) error) error {
		return s.do(ctx, n.Resource, f)
	}, send)
}
