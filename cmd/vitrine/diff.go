package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// diffReport is the result of check --diff.
type diffReport struct {
	OK        bool                              `json:"ok"`
	Resources map[shape.Resource]*compareReport `json:"resources"`
}

// compareReport compares what the CMS would give now with what is served.
type compareReport struct {
	Served      bool          `json:"served"` // there is something to compare with
	Same        bool          `json:"same"`
	Changes     shape.Changes `json:"changes"`
	HeldBack    string        `json:"held_back,omitempty"` // what the guard has against it
	Accepted    bool          `json:"accepted"`            // which it is taken in spite of: accepted, or held back for long enough
	PinnedUntil *time.Time    `json:"pinned_until"`        // until when the CMS is not asked
	Error       string        `json:"error,omitempty"`
}

// diff compares each resource, and fails where one cannot be fetched, or would be held back.
func diff(ctx context.Context, cfg config.Config, client *upstream.Client, asJSON bool, p program) error {
	store, err := service.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it was read alone
	r := diffReport{OK: true, Resources: map[shape.Resource]*compareReport{}}
	var group errgroup.Group
	for _, resource := range shape.Resources() {
		compared := &compareReport{Changes: shape.Changes{}}
		r.Resources[resource] = compared
		group.Go(func() error { return compared.compare(ctx, cfg, client, store, resource) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range r.Resources {
		r.OK = r.OK && c.Error == "" && (c.HeldBack == "" || c.Accepted)
	}
	return p.report(r.OK, asJSON, r, func(s *screen) {
		for _, resource := range shape.Resources() {
			r.Resources[resource].show(s, resource)
		}
	})
}

// compare fetches the resource, and asks the guard as the next fetch of a service would. It fails
// if what is served is unknown.
func (c *compareReport) compare(ctx context.Context, cfg config.Config, client *upstream.Client, store *cache.Store, r shape.Resource) error {
	present, err := store.Present(ctx, string(r))
	if err != nil {
		return fmt.Errorf("%s at %s: %w", r, store.Addr(), err)
	}
	result, err := client.Fetch(ctx, r, upstream.Held{})
	if err != nil {
		c.Error = err.Error()
	}
	held := present.Document
	lasts := cfg.TTL.Of(string(r)) + max(cfg.StaleWhileRevalidate, cfg.StaleIfError)
	if held == nil || time.Since(held.FetchedAt) > lasts && !time.Now().Before(held.PinnedUntil) {
		return nil
	}
	if c.Served = true; !held.PinnedUntil.IsZero() {
		c.PinnedUntil = &held.PinnedUntil
	}
	if err != nil {
		return nil //nolint:nilerr // it is reported
	}
	body := result.Document.Body
	if c.Same = cache.ETag(body) == held.ETag; c.Same {
		return nil
	}
	c.Changes = shape.Compare(r, held.Body, body)
	if judge := service.Guard(r, cfg.Guard.Shrink); judge != nil && present.Source == client.Fingerprint() {
		if o := judge(held, &cache.Document{Body: body}); o != nil && (o.Lasting || cfg.Guard.Hold > 0) {
			c.HeldBack, c.Accepted = o.Reason, present.Accepted || isOver(present, o)
		}
	}
	return nil
}

// isOver reports whether the time is over for which documents were held back for such an objection.
func isOver(p cache.Present, o *cache.Objection) bool {
	return !o.Lasting && p.HeldBack != nil && !p.HeldBack.Until.IsZero() && !p.Now.Before(p.HeldBack.Until)
}

func (c *compareReport) show(s *screen, r shape.Resource) {
	what := c.Changes.String()
	if what == "" {
		what = "in a way that has no name"
	}
	switch {
	case c.Error != "":
		s.printf("%-10s FAILED  %s\n", r, c.Error)
	case !c.Served:
		s.printf("%-10s new     Redis holds nothing to compare with; replicas may serve a copy\n", r)
	case c.Same:
		s.printf("%-10s same\n", r)
	case c.HeldBack != "" && !c.Accepted:
		s.printf("%-10s HELD    %s\n", r, what)
		s.printf("%-10s         it would be held back: %s\n", "", c.HeldBack)
	default:
		s.printf("%-10s changed %s\n", r, what)
	}
	if c.Accepted {
		s.printf("%-10s         it is accepted: %s\n", "", c.HeldBack)
	}
	if c.PinnedUntil != nil {
		s.printf("%-10s         pinned until %s: the CMS is not asked\n", "", c.PinnedUntil.UTC().Format(time.RFC3339))
	}
}
