package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/upstream/shape"
)

// versions are the earlier versions of a document, newest first.
type versions struct {
	Resource shape.Resource `json:"resource"`
	Key      string         `json:"key"` // in Redis
	Versions []listed       `json:"versions"`
}

type listed struct {
	Name          string     `json:"name"`
	At            time.Time  `json:"at"`
	Items         int        `json:"items"`
	Bytes         int        `json:"bytes"`
	Changes       string     `json:"changes,omitempty"`
	Served        bool       `json:"served"`
	RestoredBy    string     `json:"restored_by,omitempty"`
	RestoredUntil *time.Time `json:"restored_until,omitempty"`
}

// history lists what is kept of the documents, or prints a version.
func history(c *call, _ *flag.FlagSet) action {
	return c.onStore(1, func(ctx context.Context, store *cache.Store, r shape.Resource) (any, error) {
		if len(c.args) > 1 {
			kept, err := store.Version(ctx, string(r), c.args[1])
			if err != nil {
				return nil, err
			}
			return document(kept.Body), nil
		}
		kept, err := store.History(ctx, string(r))
		if err != nil {
			return nil, err
		}
		present, err := store.Present(ctx, string(r))
		of := versions{Resource: r, Key: store.Prefix() + string(r), Versions: []listed{}}
		for _, v := range kept {
			one := listed{Name: v.Name, At: v.At, Items: v.Items, Bytes: v.Bytes, Changes: v.Changes}
			if d := present.Document; d != nil && v.Name == cache.VersionOf(d.Body) {
				if one.Served = true; d.RestoredBy != "" {
					one.RestoredBy, one.RestoredUntil = d.RestoredBy, &d.FreshUntil
				}
			}
			of.Versions = append(of.Versions, one)
		}
		return of, err
	})
}

// restored is what restore did.
type restored struct {
	Resource shape.Resource `json:"resource"`
	Key      string         `json:"key"`      // in Redis
	Version  string         `json:"version"`  // latest: the restore has ended
	Restored bool           `json:"restored"` // it was, for latest; otherwise it is
	Until    *time.Time     `json:"until,omitempty"`
}

// restore serves a version of the history, or ends that.
func restore(c *call, f *flag.FlagSet) action {
	lasts := f.Duration("for", 2*time.Hour, "for how long nothing is fetched, a `DURATION` of at most 720h")
	return c.onStore(1, func(ctx context.Context, store *cache.Store, r shape.Resource) (any, error) {
		version := c.args[1]
		did := restored{Resource: r, Key: store.Prefix() + string(r), Version: version}
		switch {
		case version != cache.Latest && !cache.IsVersion(version):
			return nil, wrongUse("version (argument): want 12 hexadecimal digits, as vitrine history %s lists them, or latest, got %q", r, version)
		case *lasts < time.Second || *lasts > cache.MostRestored:
			return nil, wrongUse("--for (flag): want 1s to %.0fh, got %v", cache.MostRestored.Hours(), *lasts)
		case version == cache.Latest:
			present, err := store.Present(ctx, string(r))
			if d := present.Document; err == nil && d != nil && d.RestoredBy != "" {
				did.Restored = true
				_, err = store.Purge(ctx, string(r), true, author())
			}
			return did, err
		}
		until, err := store.Restore(ctx, string(r), version, *lasts, author(), service.CanServe(r))
		if errors.Is(err, cache.ErrNoVersion) {
			err = fmt.Errorf("%w; vitrine history %s lists what is there", err, r)
		}
		did.Restored, did.Until = true, &until
		return did, err
	})
}
