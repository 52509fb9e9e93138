package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// A baseline is what the guard compares with: what Redis has of a resource.
type baseline struct {
	present cache.Present
	survey  guard.Survey
	older   guard.Survey // of an older version; none if there is none
}

func baselineOf(ctx context.Context, store *cache.Store, r shape.Resource) (b baseline, err error) {
	if b.present, err = store.Present(ctx, string(r)); err != nil {
		return b, fmt.Errorf("%s at %s: %w", r, store.Addr(), err)
	}
	b.survey, b.older = surveyOf(r, b.present.Document), surveyOf(r, b.present.Older)
	return b, nil
}

func surveyOf(r shape.Resource, d *cache.Document) guard.Survey {
	var doc shape.Document
	if d != nil {
		doc, _ = shape.Normalize(r, d.Body) // of anything else nothing is known
	}
	return doc.Survey
}

// judge asks the guard as the next fetch of a service would. It reports whether the document would
// be taken in spite of that: accepted, or held back for long enough.
func (b *baseline) judge(cfg config.Config, source string, now guard.Survey) (why string, taken bool) {
	h, policy := b.present.HeldBack, service.Policy(cfg)
	if b.present.Source != source && h == nil {
		return "", false
	}
	found := policy.Judge(b.survey, now).Held()
	if len(found) == 0 {
		found = policy.Judge(b.older, now).Held().Shrunk()
	}
	_, over := h.Next(b.present.Now, found, b.present.Failure == "", cfg.Guard.Hold)
	return found.String(), len(found) > 0 && h != nil && (over || b.present.Accepted && h.Covers(found))
}

// comparison compares what the CMS would give now with what is served.
type comparison struct {
	Served        bool          `json:"served"` // there is something to compare with
	Same          bool          `json:"same"`
	Changes       shape.Changes `json:"changes"`
	RestoredUntil *time.Time    `json:"restored_until"` // until when the CMS is not asked
}

// compare compares with a document of the CMS, if it gave one.
func (b *baseline) compare(r shape.Resource, now []byte) *comparison {
	held := b.present.Document
	c := &comparison{Served: held != nil, Changes: shape.Changes{}}
	if c.Served && held.RestoredBy != "" {
		c.RestoredUntil = &held.FreshUntil
	}
	if c.Served && now != nil {
		if c.Same = cache.ETag(now) == held.ETag; !c.Same {
			c.Changes = shape.Compare(r, held.Body, now)
		}
	}
	return c
}

// What says what changed.
func (c comparison) What() string { return cmp.Or(c.Changes.String(), "in a way that has no name") }
