package cache

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// losses are the findings for which a document may not replace the baseline; none if there is none, or
// one of another source, of which nothing is expected unless something is held back: a deploy does not
// end that.
func (k *keeper[V]) losses(f *flight[V], c *cached[V]) guard.Findings {
	b := f.base
	if k.o.Guard == nil || f.renewed || b == nil || b.config != k.o.Source && f.from.hold.Since == 0 || b.doc.ETag == c.doc.ETag {
		return nil
	}
	if f.from.saw.Holds == lease.Document && f.from.saw.ETag == c.doc.ETag { // another process has stored it, and its body is not read yet
		return nil
	}
	found := k.o.Guard(b.value, c.value)
	if len(found) > 0 || f.token == "" {
		return found
	}
	if older := k.store.older(k.store.ctx, k.key, f.from.saw.Baseline, f.server, b.doc.Body); older != nil {
		if value, err := k.prepare(older); err == nil {
			return k.o.Guard(value, c.value).Shrunk()
		}
	}
	return nil
}

// guardReaches is how far back versions of the history count for the guard: a list that shrinks by a
// little less than it may, again and again, shrinks by more.
const guardReaches = 24 * time.Hour

// older is the oldest version of the history that counts for the guard beside the served one, or nil: it
// was served within that time before now, and not before since, when an operator last said what is right,
// or a loss was taken.
func (s *Store) older(ctx context.Context, key string, since, now int64, served []byte) *Document {
	all, err := s.History(ctx, key)
	oldest := ""
	for _, v := range all {
		if at := v.Replaced; v.At.UnixMilli() >= since && (at.IsZero() || at.UnixMilli() > now-guardReaches.Milliseconds()) {
			oldest = v.Name
		}
	}
	if err != nil || oldest == "" || oldest == lease.VersionOf(served) {
		return nil
	}
	d, _ := s.Version(ctx, key, oldest) // it may have gone meanwhile
	return d
}

// holdBack holds a document back if it loses too much, and says so with the lease, if there is one;
// Redis gets the baseline back if it has none. It reports false if the document is to be stored; f says
// why a hold has ended then.
func (k *keeper[V]) holdBack(f *flight[V], c *cached[V]) bool {
	found, before := k.losses(f, c), f.from.hold.Hold()
	if len(found) == 0 {
		if before != nil {
			f.released = guard.Recovered
		}
		return false
	}
	// Findings that end before the CMS would be asked again hold nothing back: visitors would get an
	// error.
	at, b := poll.Now(), f.base
	now := f.server + (at - f.began).Milliseconds()
	hold, over := before.Next(time.UnixMilli(now), found, f.from.failure == nil || f.from.failure.isHeld(), k.o.GuardHold)
	left := b.usable - min(k.o.BackoffFirst, time.Second) - at // just before the baseline's end
	if over || left <= 0 {
		if before != nil {
			f.released = guard.Expired
		}
		return false
	}
	f.pause = min(k.o.TTL, left) // the CMS is asked once per TTL, and at the end
	if hold.Until != nil {
		f.pause = min(f.pause, ms(hold.Until.UnixMilli()-now))
	}
	f.pause = max(f.pause, time.Millisecond)
	if f.hold = hold.Record(); f.token == "" {
		return true
	}
	w := lease.Holding{
		Failure: lease.Failure{Count: f.from.failure.failures() + 1, Code: lease.CodeHeld}, Backoff: f.pause, Hold: f.hold, Covered: before.Covers(found),
		Last: now + left.Milliseconds(),
	}
	if !f.present {
		w.Base = &lease.Filling{
			ETag: b.doc.ETag, Body: b.doc.Body, Source: b.config, FetchedAt: b.fetched, ChangedAt: b.doc.ChangedAt.UnixMilli(), FreshUntil: b.mark,
			UpstreamETag: b.doc.UpstreamETag, UpstreamLastModified: b.doc.UpstreamLastModified, Suspicions: b.doc.Suspicions, Age: b.doc.Age, Stale: b.usable - at,
		}
	}
	k.write(f, func(ctx context.Context, r *redis.Client) (lease.Outcome, error) {
		return k.hash.Hold(ctx, r, f.token, w)
	})
	if f.failed == nil && (f.outcome == lease.Accepted || f.outcome == lease.Expired) {
		f.released, f.hold, f.outcome = guard.End(f.outcome), guard.Record{}, ""
		return false
	}
	return true
}

// write has Redis store what was loaded, or what is held back: again and over a new connection,
// which a poll opens, if the one that there was broke. If the lease is gone then, the first may have been executed.
func (k *keeper[V]) write(f *flight[V], script func(ctx context.Context, r *redis.Client) (lease.Outcome, error)) {
	ctx, size := context.WithoutCancel(k.store.ctx), int64(len(f.loaded.Load().doc.Body))
	if f.base != nil {
		size = max(size, int64(len(f.base.doc.Body)))
	}
	call := func(ctx context.Context, r *redis.Client) (err error) {
		f.outcome, err = script(ctx, r)
		return err
	}
	f.failed = k.member.Do(ctx, size, call)
	if timeout, ok := errors.AsType[net.Error](f.failed); f.failed == nil || poll.Replied(f.failed) || ok && timeout.Timeout() || !poll.Sleep(ctx, k.store.o.PurgeBound) {
		return
	}
	broken := f.failed
	if f.failed = k.member.Do(ctx, size, call); f.failed == nil && f.outcome == lease.Lost {
		f.failed, f.outcome = broken, ""
	}
}
