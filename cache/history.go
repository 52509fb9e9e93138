package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/upstream/guard"
)

// A Version is a document in the history of a resource.
type Version = lease.Version

// What a restore is asked for: Latest instead of a version ends one, and it lasts MostRestored at most.
const (
	Latest       = lease.Latest
	MostRestored = lease.MostRestored
)

// IsVersion reports whether s can be the name of a version.
func IsVersion(s string) bool { return lease.IsVersion(s) }

// VersionOf is the name of the version with this body.
func VersionOf(body []byte) string { return lease.VersionOf(body) }

// ErrNoVersion means that the history has no such version.
var ErrNoVersion = lease.ErrNoVersion

// History lists what is kept of a resource, newest first: ten different documents and 10 MiB at most,
// until 30 days after the last write.
func (s *Store) History(ctx context.Context, key string) ([]Version, error) {
	return call(ctx, s, key, func(ctx context.Context, c *redis.Client) ([]Version, error) { return s.hash(key).History(ctx, c) })
}

// Version returns one of them, or [ErrNoVersion].
func (s *Store) Version(ctx context.Context, key, version string) (*Document, error) {
	packed, err := call(ctx, s, key, func(ctx context.Context, c *redis.Client) ([]byte, error) {
		return s.hash(key).Version(ctx, c, version)
	})
	if err != nil {
		return nil, err
	}
	body, err := lease.Unpack(packed, version, s.o.MostBody)
	if err != nil {
		return nil, err
	}
	return &Document{Body: body, ETag: ETag(body)}, nil
}

// Restore has every process on this Redis serve a version of the history, and fetch nothing until the
// returned time, or until a purge. By says who wants that, and check whether it can be served: nothing is
// written otherwise, nor if something else is written meanwhile ([ErrChanged]).
func (s *Store) Restore(ctx context.Context, key, version string, lasting time.Duration, by string, check func(*Document) error) (until time.Time, err error) {
	hash := s.hash(key)
	var at lease.Record
	if err = s.do(ctx, key, func(ctx context.Context, c *redis.Client) (err error) {
		at, _, err = hash.Look(ctx, c)
		return err
	}); err != nil {
		return until, err
	}
	d, err := s.Version(ctx, key, version)
	if err != nil {
		return until, err
	}
	if check != nil {
		if err = check(d); err != nil {
			return until, err
		}
	}
	var outcome lease.Outcome
	err = s.redis.Do(ctx, s.o.Prefix+key, false, func(ctx context.Context, c *redis.Client) (err error) { // without retries: it could be carried out twice
		outcome, until, err = hash.Restore(ctx, c, lease.Restoration{
			At: at.Generation, Version: version, ETag: d.ETag, Body: d.Body, For: lasting, Stale: s.o.StaleWindow, By: by, Set: s.token(),
		})
		return err
	})
	switch {
	case err != nil:
		return until, fmt.Errorf("redis: %w", err)
	case outcome == lease.Withdrawn:
		return until, ErrNoVersion
	case outcome != lease.Restored:
		return until, ErrChanged
	}
	return until, nil
}

// ErrChanged means that the document was written or purged while it was to be restored.
var ErrChanged = errors.New("the document changed meanwhile; nothing was restored")

// Present is what Redis has of a resource, with times on its clock.
type Present struct {
	Document *Document   // nil if there is none that can be used
	Older    *Document   // the oldest version with which the guard compares too; nil if there is none
	Source   string      // the fingerprint of the configuration that it was fetched with
	HeldBack *guard.Hold // nil for nothing; Until is nil for what ends with the copy
	Accepted bool        // an operator has accepted that
	Failure  string      // the code of the last attempt to fetch, by any process, if it failed
	Now      time.Time
}

// Present is what Redis has of key now.
func (s *Store) Present(ctx context.Context, key string) (p Present, err error) {
	var rec lease.Record
	var body lease.Body
	if err = s.do(ctx, key, func(ctx context.Context, c *redis.Client) (err error) {
		rec, body, err = s.hash(key).Look(ctx, c)
		return err
	}); err != nil {
		return p, err
	}
	at := func(ms int64) (t time.Time) {
		if ms > 0 {
			t = time.UnixMilli(ms)
		}
		return t
	}
	p = Present{Source: rec.Source, Now: at(rec.Now)}
	p.HeldBack, p.Accepted = rec.Hold.Hold(), rec.Accepted
	if rec.Failure.Count > 0 && rec.Failure.Code != lease.CodeHeld {
		p.Failure = rec.Failure.Code
	}
	if rec.Holds == lease.Document && ETag(body.Body) == rec.ETag {
		p.Document = &Document{
			Body: body.Body, ETag: rec.ETag, FetchedAt: at(rec.FetchedAt), ChangedAt: at(rec.ChangedAt), FreshUntil: at(rec.FreshUntil),
			Suspicions: rec.Suspicions, RestoredBy: rec.RestoredBy, Age: rec.Age,
		}
		p.Older = s.older(ctx, key, rec.Baseline, rec.Now, body.Body)
	}
	return p, nil
}

// remember keeps what this process has filled in the history, after replaced, if that is known. A
// renewed document is there already, unless the history was removed, and what is there may have to go.
func (k *keeper[V]) remember(at lease.Generation, filled, replaced *Document) {
	v := Version{Name: lease.VersionOf(filled.Body), Bytes: len(filled.Body)}
	err := k.member.Do(k.store.ctx, int64(len(filled.Body)), func(ctx context.Context, c *redis.Client) error {
		wanted, all, err := k.hash.Wants(ctx, c, at, v.Name)
		if err != nil || !wanted {
			return err
		}
		if len(all) < 2 {
			replaced = nil
		} else if newest := all[1].Name; replaced == nil || lease.VersionOf(replaced.Body) != newest {
			replaced, _ = k.store.Version(ctx, k.key, newest) // without it, nothing is said of what changed
		}
		reordered := false
		if k.o.Describe != nil {
			v.Items, v.Changes, reordered = k.o.Describe(replaced, filled)
		}
		_, err = k.hash.Remember(ctx, c, at, v, all, reordered, filled.Body)
		return err
	})
	if failing := k.unkept.Swap(err != nil); err != nil && !failing {
		k.store.o.Logger.Warn("cannot keep the history", "resource", k.key, "error", err)
	}
}
