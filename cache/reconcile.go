package cache

import (
	"strings"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// learn admits what was read after mark, from the process run.
func (r *Reader[V]) learn(prev *entry[V], rec *lease.Record, mark watch.Mark, run string) *entry[V] {
	r.skew.Store(rec.Now - time.Now().UnixMilli())
	r.noteFailure(rec, mark)
	e := r.reconcile(prev, rec, run, &mark)
	e.mark, e.lease, e.filled = mark, rec.Lease, ""
	e.wanted = e.wanted || r.store.refused.Load() == nil && strings.HasPrefix(rec.Lease, r.store.holder+"/")
	r.admit(e)
	r.unsave()
	return e
}

// reconcile decides between memory and Redis. Redis is right, with three exceptions: it lost its
// data; it never held the copy in memory; or what it holds is not a document.
func (r *Reader[V]) reconcile(prev *entry[V], rec *lease.Record, run string, mark *watch.Mark) *entry[V] {
	now, redis := watch.Now(), heldIn(rec, run)
	var e *entry[V]
	e, redis.damaged = r.entry(rec, prev)
	if !prev.holds(now) {
		return e.in(redis)
	}
	was := prev.redis
	softly := redis.freshUntil != was.freshUntil && (redis.freshUntil == 0 || redis.freshUntil < lease.Restored && was.freshUntil != 0)
	if softly {
		r.store.purged(r.key, "soft")
	}
	// A document that was withdrawn before Redis restarted is purged, not lost.
	restarted := was.run != run && !r.unexplained(prev)
	// A document that is fresh in Redis is not fetched again, unless Redis refuses writes.
	older := e != nil && rec.FetchedAt < prev.fetchedAt && (rec.FreshUntil <= rec.Now || prev.detail == DetailRedisRefused)
	switch {
	case prev.unstored && (e == nil || older || rec.FetchedAt > rec.Now) && r.untouched(prev, rec, &redis, mark):
		kept := prev.in(redis)
		kept.wanted = rec.Soft() && (softly || !r.watched.Quiet(r.store.ctx, &prev.mark, mark, 0)) // a second 0 is like the first
		if softly || kept.wanted || prev.detail == DetailRedisAway {                               // is due, and can be stored again
			kept.dueFrom(now)
		}
		return kept
	case older && restarted:
		return r.lose(prev, redis) // back from an older snapshot
	case e != nil:
		return e.in(redis)
	case rec.Overwritten, restarted && (rec.Dataset == "" || rec.Dataset != was.dataset):
		return r.lose(prev, redis)
	}
	r.store.purged(r.key, "hard")
	return e.in(redis)
}

// untouched reports whether Redis holds what it held before a copy was loaded that it does not have:
// then that copy was not purged, and whatever was announced does not matter. The name of a hash that
// had no document says so even once another replica has put back what it had. Where Redis held
// nothing, anything that was stored and purged since has left no trace but its announcements, beside
// those of the lease that is there now.
//
// An empty Redis is told apart without them, since others write there while a lost copy is offered:
// the first lease gives one name to the data set and to the hash, and a hash made after a purge has
// another.
func (r *Reader[V]) untouched(prev *entry[V], rec *lease.Record, redis *held, mark *watch.Mark) bool {
	was, restored := &prev.redis, redis.freshUntil == lease.Restored
	switch {
	case prev.lost() && r.watched.Flushed(&prev.mark):
		return false
	case was.vacant != "":
		return redis.vacant == was.vacant
	case was.etag != "":
		return redis.etag == was.etag && redis.fetchedAt == was.fetchedAt && restored == (was.freshUntil == lease.Restored)
	case redis.etag != "" && !restored:
		return false
	case prev.lost() && was.dataset == "":
		return redis.vacant == redis.dataset
	}
	return redis.etag == "" && prev.detail != DetailRedisAway && r.watched.Quiet(r.store.ctx, &prev.mark, mark, rec.Writes)
}

// in is a copy of the entry for the present state of Redis; of nil, an empty entry.
func (e *entry[V]) in(redis held) *entry[V] {
	out := entry[V]{}
	if e != nil {
		out = *e
	}
	out.redis = redis
	return &out
}

// lose keeps a document that Redis has lost: it is loaded again, and served if that fails.
func (r *Reader[V]) lose(prev *entry[V], redis held) *entry[V] {
	e := prev.in(redis)
	e.unstored, e.detail = true, DetailRedisLost
	if !prev.lost() {
		r.store.log.Warn("redis lost its data; fetching again, and keeping the last good copy until then", "resource", r.key)
	}
	e.dueFrom(watch.Now())
	return e
}

// entry makes an entry from a record, reusing prev's values for the same content; nil if there is
// no document, or for some reason none that can be used.
func (r *Reader[V]) entry(rec *lease.Record, prev *entry[V]) (e *entry[V], damaged string) {
	if !rec.Holds() {
		return nil, ""
	}
	now, wall, fetched := watch.Now(), time.Now(), min(max(rec.FetchedAt, 0), rec.Now)
	ms := func(d int64) time.Duration { return time.Duration(d) * time.Millisecond }
	same := prev != nil && prev.doc != nil && prev.doc.ETag == rec.ETag
	doc := &Document{
		ETag:         rec.ETag,
		FetchedAt:    wall.Add(-ms(rec.Now - fetched)),
		ChangedAt:    time.UnixMilli(rec.ChangedAt),
		FreshUntil:   wall.Add(ms(max(rec.FreshUntil, fetched) - rec.Now)),
		UpstreamETag: rec.UpstreamETag, UpstreamLastModified: rec.UpstreamLastModified,
	}
	e = &entry[V]{doc: doc, detail: DetailMemory, fetchedAt: fetched, source: rec.Source, wanted: rec.Soft()}
	if rec.FreshUntil == lease.Restored {
		e.detail = DetailRedisLost
	}
	switch {
	case same:
		doc.Body = prev.doc.Body
	case rec.Body != nil && ETag(rec.Body) == rec.ETag:
		doc.Body = rec.Body
	default:
		return nil, "the body does not match its etag"
	}
	if same && prev.doc.ChangedAt.Equal(doc.ChangedAt) {
		e.value = prev.value
		if prev.redis.fetchedAt == rec.FetchedAt && prev.redis.freshUntil == rec.FreshUntil && !prev.unstored {
			e.doc = prev.doc // the same: its times on this clock must not jump by a round trip
		}
	} else {
		value, err := r.prepare(doc)
		if err != nil {
			return nil, err.Error()
		}
		e.value = value
	}
	e.setTimes(&r.o, now, ms(rec.Now-fetched), ms(rec.FreshUntil-rec.Now))
	return e, ""
}

// damage reports that Redis holds an unusable document.
func (r *Reader[V]) damage(redis *held) {
	if r.store.events.Damaged != nil {
		r.store.events.Damaged(r.key)
	}
	r.store.log.Error("redis holds an unusable document; fetching it again", "resource", r.key, "etag", redis.etag, "error", redis.damaged)
}
