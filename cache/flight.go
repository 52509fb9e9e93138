package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// The outcomes of a load in [Events], beside those of a fill.
const (
	outcomeRenewed = "renewed"
	outcomeLost    = "lost"
	outcomeAlone   = "alone"
	outcomeFailed  = "failed"
	outcomeHeld    = "held"
)

// errVoid ends a load whose fill would be refused.
var errVoid = errors.New("purged while it was fetched")

// A lastChange is when the content last changed, by its etag.
type lastChange struct {
	etag string
	at   time.Time
}

// A flight is a load, and its fill. What the keeper knew when it began is given to it.
type flight[V any] struct {
	token   string // of its lease; "" without
	source  source // what the copy is if it is not stored
	from    view[V]
	base    *cached[V] // what the guard compares with,
	present bool       // and Redis has
	server  int64      // Redis's time when it began, as well as that is known
	changed lastChange

	began, extended, took time.Duration
	ended                 time.Duration // 0 while it is under way
	void                  func()
	loaded                atomic.Pointer[cached[V]] // before its fill: a poll can show that first
	done                  chan struct{}

	// What follows is set when it is done.
	err      error // errVoid: it was ended, since its fill would be refused
	renewed  bool
	hold     guard.Record // the document is held back,
	released guard.End    // or why a hold ends with it
	pause    time.Duration
	outcome  lease.Outcome // of the fill or hold; "" if there was none
	failed   error
}

// fly loads and fills, in a goroutine of its own.
func (k *keeper[V]) fly(token string, s source) {
	v := &k.now
	f := &flight[V]{
		token: token, source: s, from: *v, base: k.base, changed: k.changed, began: poll.Now(), done: make(chan struct{}),
		present: k.base != nil && v.copy == k.base && k.base.source == stored && !v.unreachable,
	}
	f.extended, f.server = f.began, time.Now().UnixMilli()
	if v.saw.Now > 0 {
		f.server = v.saw.Now // not later than it is
		if v.unreachable {
			f.server += (f.began - v.saw.Sent).Milliseconds()
		}
	}
	ctx := k.store.ctx
	if values := k.lent.Swap(nil); values != nil {
		ctx = *values
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.void = func() { cancel(errVoid) }
	k.flight = f
	end := k.member.Wait()
	k.store.tasks.Go(func() {
		defer close(f.done)
		defer end()
		defer cancel(nil)
		defer context.AfterFunc(k.store.ctx, func() { cancel(nil) })()
		k.load(ctx, f)
		if f.took = poll.Now() - f.began; errors.Is(context.Cause(ctx), errVoid) && f.err != nil {
			f.err = errVoid
		}
		if f.err == nil && k.store.ctx.Err() == nil {
			k.fill(f)
		}
	})
}

// load calls the loader within its timeout, and prepares the result. It is the flight's own.
func (k *keeper[V]) load(ctx context.Context, f *flight[V]) {
	ctx, cancel := context.WithTimeout(ctx, k.o.FetchTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("loading %s: panic: %v\n%s", k.key, p, debug.Stack())
		}
	}()
	var before *Document // what NotModified would renew
	if f.base != nil && f.base.config == k.o.Source {
		before = f.base.doc
	}
	var l Loaded
	if l, f.err = k.o.Loader.Load(ctx, k.key, before); f.err != nil {
		return
	}
	f.renewed = l.NotModified
	c, doc := &cached[V]{source: f.source, config: k.o.Source, fetched: f.server, mark: f.from.saw.FreshUntil, over: f.from.saw.Generation, loaded: poll.Now(), status: l.Status, brief: l.Fresh > 0}, Document{Body: l.Body}
	switch {
	case !l.NotModified && len(l.Body) == 0: // which a fill would take for a renewal
		f.err = fmt.Errorf("loading %s: an empty body", k.key)
		return
	case !l.NotModified:
		doc.ETag = ETag(l.Body)
	case before == nil:
		f.err = fmt.Errorf("loading %s: not modified, but nothing was cached", k.key)
		return
	default:
		doc = *before
		doc.RestoredBy = ""
	}
	doc.Suspicions, doc.UpstreamETag, doc.UpstreamLastModified, doc.Age = l.Suspicions, l.UpstreamETag, l.UpstreamLastModified, l.Age
	c.doc = &doc
	if f.renewed {
		c.value = f.base.value
	} else if c.value, f.err = k.prepare(c.doc); f.err != nil {
		return
	}
	c.ahead, c.fresh = f.began+l.freshness(k.o.TTL), f.began+l.freshness(k.o.freshness())
	c.until(&k.o, c.fresh)
	c.loose = f.base == nil && f.source == local
	changed := time.UnixMilli(time.Now().UnixMilli())
	if f.changed.etag == doc.ETag {
		changed = f.changed.at
	}
	c.stamp(changed, f.began, "")
	f.loaded.Store(c)
}

// fill has Redis store what was loaded, or hold it back.
func (k *keeper[V]) fill(f *flight[V]) {
	c := f.loaded.Load()
	if k.holdBack(f, c) {
		return
	}
	if f.token == "" || f.base == nil && k.o.Guard != nil && f.from.saw.Hold.Since > 0 && !f.from.saw.Accepted { // nothing to compare with, while something is held back
		return
	}
	d := &lease.Filling{
		Source: k.o.Source, ETag: c.doc.ETag, Body: c.doc.Body, TTL: c.fresh - f.began, Stale: max(k.o.StaleWhileRevalidate, k.o.StaleIfError),
		UpstreamETag: c.doc.UpstreamETag, UpstreamLastModified: c.doc.UpstreamLastModified, ChangedAt: c.doc.ChangedAt.UnixMilli(), Suspicions: c.doc.Suspicions, Age: c.doc.Age, Released: f.released,
	}
	if f.renewed = f.renewed && f.present && f.from.saw.ETag == c.doc.ETag; f.renewed {
		d.Body = nil
	}
	k.write(f, func(ctx context.Context, r *redis.Client) (lease.Outcome, error) {
		return k.hash.Fill(ctx, r, f.token, d)
	})
}
