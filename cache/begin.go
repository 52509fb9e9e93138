package cache

import (
	"fmt"
	"strings"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// most is for how long a lease is extended: to the upstream timeout, and while what was fetched is
// uploaded.
func (k *keeper[V]) most(f *flight[V]) time.Duration {
	if c := f.loaded.Load(); c != nil {
		return k.o.FetchTimeout + uploadMost + time.Duration(len(c.doc.Body))*time.Second/poll.Slowest
	}
	return k.o.FetchTimeout
}

// begin begins a load if one is due: alone where Redis is unreachable, otherwise with an acquire.
func (k *keeper[V]) begin() {
	v, now := &k.now, poll.Now()
	if !k.wanted.Load() {
		return
	}
	s := v.copy.standing(now)
	unserved := v.failure.isHeld() && s == copyNone
	switch busy := v.saw.Left > 0 && now < v.saw.Sent+v.saw.Left && v.saw.Failure.Count == 0 && !strings.HasPrefix(v.saw.Lease, k.store.owner); {
	case s == copyFresh && !v.saw.Accepted:
		k.wanted.Store(false)
	case k.flight != nil || k.token != "":
	case v.pausing(now) && !unserved && !v.saw.Accepted:
		k.wanted.Store(false) // who reads after that asks again
	case v.unreachable:
		if cause := k.o.Unable(); cause != nil {
			k.unable(cause)
			return
		}
		k.fly("", local)
	case !v.asked || k.reading != nil && s == copyNone || busy || now < k.pause:
	case v.saw.Foreign(k.o.Source) && s != copyNone:
		k.ask(now)
		k.wanted.Store(false)
	case v.saw.Foreign(k.o.Source):
		k.leave(now, errForeign)
	case k.o.Unable() != nil:
		k.leave(now, k.o.Unable())
	default:
		k.token, k.rode = k.store.token(), now
		q := lease.Request{Token: k.token, Length: leaseLength, TTL: k.o.TTL, Source: k.o.Source, Unserved: s == copyNone}
		if v.saw.Generation == k.damaged {
			q.Damaged = k.damaged.ETag
		}
		if c := v.copy; c != nil && c.source != stored {
			q.Newer = c.fetched
		}
		k.member.Ride(lease.Acquire(q))
	}
}

// leave leaves the load to other processes: it asks them to, and fails if none has begun soon.
func (k *keeper[V]) leave(now time.Duration, cause error) {
	if !k.ask(now) && now >= k.left+2*k.store.o.PurgeBound { // until then they have received that
		k.unable(cause)
	}
}

// ask asks other processes to load, unless that was done lately.
func (k *keeper[V]) ask(now time.Duration) bool {
	if now < k.left+wantLasts {
		return false
	}
	k.left = now
	k.member.Ride(lease.Want(wantLasts))
	return true
}

// errForeign is why a process without a copy does not fetch one: those that do have not.
var errForeign = fmt.Errorf("%w: the fleet has another source", ErrWait)

// fleet notes whether this process has the fleet's source, and renews it.
func (k *keeper[V]) fleet(p *poll.Result) {
	was, is, now := k.now.saw.Foreign(k.o.Source), p.Foreign(k.o.Source), poll.Now()
	if is && !was {
		k.store.o.Logger.Warn("the fleet has another source: serving what redis has, and fetching nothing", "resource", k.key, "source", k.o.Source, "fleet", p.Fleet)
	} else if was && !is {
		k.store.o.Logger.Info("this source is the fleet's, or may be", "resource", k.key, "source", k.o.Source)
	}
	if p.Fleet == k.o.Source && p.Now-p.FleetSeen >= lease.SourceRenews.Milliseconds() && now >= k.renewed+time.Second {
		k.renewed = now
		k.member.Ride(lease.Renew(k.o.Source))
	}
}

// unable is a failure that no load was tried for.
func (k *keeper[V]) unable(cause error) {
	k.now.failure = &failure{err: cause, count: max(k.now.failure.failures(), 1), until: poll.Now() + unablePause, own: true}
	k.wanted.Store(false)
	k.publish(false)
}
