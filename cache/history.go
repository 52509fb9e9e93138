package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// A Version is a document in the history of a resource.
type Version = lease.Version

// What [Store.Restore] is asked for: Latest instead of a version ends a pin, which lasts MostPin at
// most.
const (
	Latest  = lease.Latest
	MostPin = lease.MostPin
)

// IsVersion reports whether s can be the name of a version.
func IsVersion(s string) bool { return lease.IsVersion(s) }

// VersionOf is the name of the version with this body.
func VersionOf(body []byte) string { return lease.VersionOf(body) }

// ErrNoVersion means that the history has no such version.
var ErrNoVersion = lease.ErrNoVersion

// History lists what is kept of a resource, newest first: the last ten different documents, at most
// 10 MiB, each until a week after it was replaced.
func (s *Store) History(ctx context.Context, key string) ([]Version, error) {
	return call(ctx, s, key, func(c redis.Cmdable) ([]Version, error) { return s.hash(key).History(ctx, c) })
}

// Version returns the body of one of them, or [ErrNoVersion].
func (s *Store) Version(ctx context.Context, key, version string) (body []byte, err error) {
	packed, err := call(ctx, s, key, func(c redis.Cmdable) ([]byte, error) { return s.hash(key).Version(ctx, c, version) })
	if err != nil {
		return nil, err
	}
	return lease.Unpack(packed, version)
}

// Restore has every process on this Redis serve a version of the history, and fetch nothing until
// the returned time, or until a hard purge. By says who wants that.
func (s *Store) Restore(ctx context.Context, key, version string, pin time.Duration, by string) (until time.Time, err error) {
	return s.restore(ctx, key, lease.Restoration{Version: version, Pin: pin, By: by})
}

// Unpin ends what Restore has begun: the next document is fetched at once. It reports whether it
// was pinned.
func (s *Store) Unpin(ctx context.Context, key string) (was bool, err error) {
	until, err := s.carry(ctx, key, lease.Restoration{})
	return until.UnixMilli() > 0, err
}

// Present is what Redis holds of a resource, with times on its clock.
type Present struct {
	Document *Document // nil if there is none that can be used
	Source   string    // the fingerprint of where it came from
	HeldBack *HeldBack // nil for nothing; Until is zero for what ends with the copy held
	Accepted bool      // an operator has accepted the next document
	Failure  string    // the code of the last attempt to fetch, by any process, if it failed
	Now      time.Time
}

// Present is what Redis holds of key now.
func (s *Store) Present(ctx context.Context, key string) (p Present, err error) {
	rec, err := call(ctx, s, key, func(c redis.Cmdable) (lease.Record, error) { return s.hash(key).Look(ctx, c, "") })
	if err != nil {
		return p, err
	}
	at := func(ms int64) (t time.Time) {
		if ms > 0 {
			t = time.UnixMilli(ms)
		}
		return t
	}
	p = Present{Source: rec.Source, Accepted: rec.Accept, Now: at(rec.Now)}
	if h := rec.Hold; h.Since > 0 {
		p.HeldBack = &HeldBack{Since: at(h.Since), Until: at(h.Until), Reason: h.Reason, Before: h.Before, Now: h.Now}
	}
	if rec.Failure.Count > 0 && rec.Failure.Code != lease.CodeHeld {
		p.Failure = rec.Failure.Code
	}
	if rec.Holds == lease.Document && ETag(rec.Body) == rec.ETag {
		p.Document = &Document{
			Body: rec.Body, ETag: rec.ETag, FetchedAt: at(rec.Since()), ChangedAt: at(rec.ChangedAt), FreshUntil: at(rec.FreshUntil),
		}
		if rec.Pinned() {
			p.Document.PinnedUntil, p.Document.PinnedBy = at(rec.PinnedUntil), rec.PinnedBy
		}
	}
	return p, nil
}

func (s *Store) restore(ctx context.Context, key string, q lease.Restoration) (until time.Time, err error) {
	body, err := s.Version(ctx, key, q.Version)
	if err != nil {
		return time.Time{}, err
	}
	q.ETag, q.Body, q.Set = ETag(body), body, s.token()
	return s.carry(ctx, key, q)
}

func (s *Store) carry(ctx context.Context, key string, q lease.Restoration) (until time.Time, err error) {
	done, err := call(ctx, s, key, func(c redis.Cmdable) (lease.Pinning, error) { return s.hash(key).Restore(ctx, c, q) })
	if done.Outcome == lease.Withdrawn {
		err = ErrNoVersion
	}
	return done.Until, err
}

// remember keeps what this process has filled in the history, after replaced, if that is known. A
// renewed document is there already, unless the history was removed, and what is there may have to
// go. Where Redis does not answer, it tries again: the next document may come before the next fill
// of this one.
func (r *Reader[V]) remember(ctx context.Context, filled *entry[V], replaced *Document) {
	for tries := 1; ; tries++ {
		err := r.rememberOnce(ctx, filled, replaced)
		if err == nil || watch.Replied(err) {
			r.warn(&r.unkept, "cannot keep the history", err)
			return
		}
		if tries == 3 || !watch.Sleep(ctx, callPause) {
			return
		}
	}
}

func (r *Reader[V]) rememberOnce(ctx context.Context, filled *entry[V], replaced *Document) error {
	v := Version{Name: lease.VersionOf(filled.doc.Body), Bytes: len(filled.doc.Body)}
	tell := func(body []byte) (outcome lease.Outcome, newest string, err error) {
		_, err = r.watched.Write(ctx, false, func(c redis.Cmdable) (_ bool, err error) { // the hash itself is not changed
			outcome, newest, err = r.hash.Remember(ctx, c, filled.place, v, body)
			return false, err
		})
		return outcome, newest, err
	}
	outcome, newest, err := tell(nil)
	if err == nil && outcome == lease.Wanted {
		if r.o.Describe != nil {
			v.Items, v.Changes = r.o.Describe(r.before(ctx, newest, replaced), filled.doc)
		}
		_, _, err = tell(filled.doc.Body)
	}
	return err
}

// before is the newest document of the history, nil if it cannot be had: nothing is said of what
// changed, then.
func (r *Reader[V]) before(ctx context.Context, newest string, replaced *Document) *Document {
	if replaced != nil && lease.VersionOf(replaced.Body) == newest {
		return replaced
	}
	body, err := r.store.Version(ctx, r.key, newest)
	if err != nil {
		return nil
	}
	return &Document{Body: body, ETag: ETag(body)}
}

// carryOut restores what an operator has asked for in the hash, unless another process has. What
// fails for now is tried again after a pause.
func (r *Reader[V]) carryOut(request string) {
	r.once(&r.carrying, func() {
		ctx := r.store.ctx
		err := r.carry(ctx, request)
		if ctx.Err() == nil {
			r.warn(&r.uncarried, "cannot restore for now", err)
		}
		if err != nil {
			watch.Sleep(ctx, callPause)
		}
	})
}

// carry withdraws what cannot be restored.
func (r *Reader[V]) carry(ctx context.Context, request string) error {
	s, restore := r.store, r.store.restore
	q := lease.Restoration{Request: request, Version: request, Source: r.o.Source, Pin: lease.DefaultPin, By: "redis-cli, through " + r.store.holder}
	if request == lease.Latest {
		q.Version, restore = "", s.carry
	}
	_, err := restore(ctx, r.key, q)
	if errors.Is(err, ErrNoVersion) {
		q.Version = "-" // which there never is, even where what is kept is damaged
		if _, err = s.carry(ctx, r.key, q); errors.Is(err, ErrNoVersion) {
			s.log.Warn("cannot restore: no such version in the history", "resource", r.key, "version", request)
			return nil
		}
	}
	return err
}
