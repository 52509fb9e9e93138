package cache

import (
	"errors"
	"io/fs"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/watch"
)

// savePause bounds how often a document is written.
const savePause = 100 * time.Millisecond

// recall puts the document of the last good file into memory, as one that Redis has lost: it is
// served only if nothing can be loaded. The first look at Redis decides whether it was lost or
// purged; without Redis it is served.
func (r *Reader[V]) recall() {
	if err := r.file.Clean(); err != nil {
		r.store.log.Warn("what a crash has left beside the last good copy cannot be removed", "resource", r.key, "error", err)
	}
	d, err := r.file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	doc := &Document{}
	var value V
	if err == nil {
		*doc = Document{
			Body: d.Body, ETag: d.ETag, FetchedAt: time.UnixMilli(d.FetchedAt), ChangedAt: time.UnixMilli(d.ChangedAt),
			FreshUntil: time.UnixMilli(d.FetchedAt), UpstreamETag: d.UpstreamETag, UpstreamLastModified: d.UpstreamLastModified,
		}
		value, err = r.prepare(doc)
	}
	if err != nil {
		r.store.log.Warn("the last good copy cannot be used", "resource", r.key, "error", err)
		return
	}
	e := &entry[V]{
		doc: doc, value: value, mark: r.watched.Mark().Unread(), detail: DetailRedisLost, unstored: true,
		fetchedAt: d.FetchedAt, source: d.Source,
		redis: held{etag: d.ETag, fetchedAt: d.FetchedAt, dataset: d.Dataset, run: d.Run},
	}
	now := watch.Now()
	e.setTimes(&r.o, now, max(0, time.Since(doc.FetchedAt)), 0)
	if !e.holds(now) {
		r.store.log.Info("the last good copy is too old", "resource", r.key, "fetched_at", doc.FetchedAt)
		return
	}
	r.store.log.Info("read the last good copy", "resource", r.key, "fetched_at", doc.FetchedAt, "file", r.file.Path())
	r.admit(e)
}

// save keeps the file up to date with memory, until the store closes.
func (r *Reader[V]) save() {
	var last lastgood.Document
	failed := false
	for {
		select {
		case <-r.store.ctx.Done():
			return
		case <-r.unsaved:
		}
		if r.removed.Swap(false) {
			last = lastgood.Document{}
		}
		e := r.memory.Load()
		if e == nil || e.doc == nil || e.lost() || r.unexplained(e) {
			continue // removed already, or about to be looked at
		}
		d := lastgood.Document{
			ETag: e.doc.ETag, Source: e.source, UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified,
			FetchedAt: e.fetchedAt, ChangedAt: e.doc.ChangedAt.UnixMilli(), Dataset: e.redis.dataset, Run: e.redis.run,
		}
		if d.ETag == last.ETag && d.FetchedAt == last.FetchedAt && d.Run == last.Run {
			continue
		}
		last = d
		d.Body = e.doc.Body
		err := r.file.Save(&d)
		if err != nil && !failed {
			r.store.log.Warn("the last good copy cannot be written", "resource", r.key, "error", err)
		}
		failed = err != nil
		r.unsave() // if it was withdrawn while it was written
		watch.Sleep(r.store.ctx, savePause)
	}
}

// withdrawn reports whether there is no copy in memory, or one that must not be served any more. A
// change that Redis can be asked about need not be a purge.
func (r *Reader[V]) withdrawn() bool {
	e := r.memory.Load()
	return e == nil || e.doc == nil || !r.watched.Up() && r.unexplained(e)
}

// unsave removes the file if its document was purged, or may have been. What was written meanwhile is
// written again.
func (r *Reader[V]) unsave() {
	if r.unsaved == nil || !r.withdrawn() {
		return
	}
	if err := r.file.Remove(); err == nil {
		r.unremovable.Store(false)
	} else if !r.unremovable.Swap(true) {
		r.store.log.Warn("the last good copy, which may have been purged, cannot be removed", "resource", r.key, "error", err)
	}
	r.removed.Store(true)
	watch.Signal(r.unsaved)
}
