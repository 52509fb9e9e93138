package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// purged is what became of one document.
type purged struct {
	Resource shape.Resource `json:"resource"`
	Key      string         `json:"key"`  // in Redis
	Held     bool           `json:"held"` // there was something to purge
	Soft     bool           `json:"soft"`
	History  bool           `json:"history"` // the earlier versions are forgotten too
	// But are why the CMS's present document is not served, and what changes that.
	But []string `json:"but"`
}

// maxRead is how long a purge may wait for what is said about it.
const maxRead = time.Second

// purge purges as an operator would with redis-cli.
func purge(c *call, f *flag.FlagSet) action {
	forget := f.Bool("history", false, "forget the earlier versions too")
	soft := f.Bool("soft", false, "keep serving the old document until the new one is there")
	return c.onStore(many, func(ctx context.Context, store *cache.Store, r shape.Resource) (_ any, err error) {
		if *soft && *forget {
			return nil, wrongUse("--history (flag): want a hard purge, got --soft")
		}
		one := purged{Resource: r, Key: store.Prefix() + string(r), Soft: *soft, History: *forget}
		soon, cancel := context.WithTimeout(ctx, maxRead)
		present, _ := store.Present(soon, string(r)) // without it the purge is made all the same
		cancel()
		if *forget {
			one.Held, err = store.Forget(ctx, string(r), author())
		} else {
			one.Held, err = store.Purge(ctx, string(r), *soft, author())
		}
		one.But = obstacles(present, string(r), *soft)
		return one, err
	})
}

// obstacles say why a purge does not have the CMS's present document served, and what changes that.
// A purge ends a restore, and a hard one a hold.
func obstacles(p cache.Present, resource string, soft bool) []string {
	all := []string{}
	if h := p.HeldBack; soft && h != nil && !p.Accepted {
		all = append(all, fmt.Sprintf("the CMS's document was held back (%.150s), and may be again; to accept it: vitrine accept %s", h.Reason, resource))
	}
	if p.Failure != "" {
		until := "visitors get errors until one succeeds"
		if soft && p.Document != nil {
			until = "the old copy is served until one succeeds"
		}
		all = append(all, fmt.Sprintf("the last fetch failed (%.100s): %s; to see why: vitrine check", p.Failure, until))
	}
	return all
}
