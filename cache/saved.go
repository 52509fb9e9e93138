package cache

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"reflect"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// savePause bounds how often a document is written.
const savePause = 100 * time.Millisecond

// recall makes the document of the last good file the copy, as one that Redis has lost: it is served
// only if nothing can be loaded. The first poll decides whether it was lost or purged.
func (k *keeper[V]) recall() {
	log, file := k.store.o.Logger, k.file.file
	if err := file.Clean(); err != nil {
		log.Warn("what a crash has left beside the last good copy cannot be removed", "resource", k.key, "error", err)
	}
	d, err := file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	c := &cached[V]{}
	if err == nil {
		c.doc = &Document{Body: d.Body, ETag: d.ETag, UpstreamETag: d.UpstreamETag, UpstreamLastModified: d.UpstreamLastModified, Suspicions: d.Suspicions, Age: ms(max(0, d.Age))}
		c.value, err = k.prepare(c.doc)
	}
	if err != nil {
		log.Warn("the last good copy cannot be used", "resource", k.key, "error", err)
		return
	}
	now, wall := poll.Now(), time.Now().UnixMilli()
	c.config, c.fetched, c.mark = d.Source, d.FetchedAt, d.FreshUntil
	c.until(&k.o, now+min(ms(d.StaleFrom-wall), lease.MostRestored))
	c.stamp(time.UnixMilli(d.ChangedAt), now+min(ms(d.FetchedAt-wall), 0), "")
	if c = c.lost(); c.standing(now) == copyNone {
		log.Info("the last good copy is too old", "resource", k.key, "fetched_at", c.doc.FetchedAt)
		return
	}
	log.Info("read the last good copy", "resource", k.key, "fetched_at", c.doc.FetchedAt, "file", file.Path())
	k.now.copy, k.base, k.changed = c, c, lastChange{d.ETag, c.doc.ChangedAt}
	if d.Set != "" || d.Seq > 0 || d.Run != "" {
		at := lease.Generation{Set: d.Set, Seq: d.Seq, Holds: lease.Content(d.Holds)}
		if at.Holds == lease.Document {
			at.ETag, at.FetchedAt = d.AtETag, d.AtFetched
		}
		k.now.saw, k.now.asked = &poll.Result{Record: lease.Record{Generation: at}, Run: d.Run}, true
	}
}

// A saver keeps the last good file up to date with the view. The generation is part of it: at the next
// start it says whether the document was purged meanwhile.
type saver[V any] struct {
	file                   lastgood.File
	log                    *slog.Logger
	key                    string
	windows                time.Duration // the longer stale window
	woken                  chan struct{}
	unwritten, unremovable bool // the last time
}

// save has the file written, or removes it at once if there is no copy any more: it is gone before
// anything is fetched after a purge. It is called by the keeper.
func (s *saver[V]) save(gone bool) {
	if gone {
		s.unremovable = s.warn(s.unremovable, "the last good copy, which may have been purged, cannot be removed", s.file.Remove())
	}
	poll.Wake(s.woken)
}

// warn logs an error, unless the same could not be done the last time either.
func (s *saver[V]) warn(was bool, message string, err error) bool {
	if err != nil && !was {
		s.log.Warn(message, "resource", s.key, "error", err) //nolint:sloglint // the callers' messages are constants
	}
	return err != nil
}

// run writes the file until ctx ends.
func (s *saver[V]) run(ctx context.Context, load func() *view[V]) {
	var last lastgood.Document
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.woken:
		}
		v := load()
		c := v.copy
		if c == nil {
			last = lastgood.Document{}
			continue
		}
		d := lastgood.Document{
			ETag: c.doc.ETag, Source: c.config, UpstreamETag: c.doc.UpstreamETag, UpstreamLastModified: c.doc.UpstreamLastModified,
			Suspicions: c.doc.Suspicions, FetchedAt: c.fetched, Age: c.doc.Age.Milliseconds(), ChangedAt: c.doc.ChangedAt.UnixMilli(), FreshUntil: c.mark, Run: v.saw.Run,
		}
		at := &v.saw.Generation
		d.Set, d.Seq, d.Holds, d.AtETag, d.AtFetched = at.Set, at.Seq, int(at.Holds), at.ETag, at.FetchedAt
		if reflect.DeepEqual(&d, &last) {
			continue
		}
		last = d
		d.StaleFrom, d.Body = time.Now().Add(c.usable-s.windows-poll.Now()).UnixMilli(), c.doc.Body
		s.unwritten = s.warn(s.unwritten, "the last good copy cannot be written", s.file.Save(ctx, &d))
		if load().copy == nil { // it was purged while it was written
			_ = s.file.Remove() // the keeper warns
		}
		poll.Sleep(ctx, savePause)
	}
}
