package cache

import (
	"errors"
	"io/fs"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
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
			Suspicions: d.Suspicions,
		}
		value, err = r.prepare(doc)
	}
	if err != nil {
		r.store.log.Warn("the last good copy cannot be used", "resource", r.key, "error", err)
		return
	}
	e := &entry[V]{
		doc: doc, value: value, mark: r.watched.Mark().Unread(), origin: originLost, fetchedAt: d.FetchedAt, source: d.Source,
		place: lease.Place{Set: d.Set, Seq: d.Seq, Holds: lease.Content(d.Holds)}, redisFresh: d.FreshUntil,
	}
	now := watch.Now()
	left := min(ms(d.StaleFrom-time.Now().UnixMilli()), MostPin) // in the future for what is pinned
	e.setTimes(&r.o, now, max(0, time.Since(doc.FetchedAt)), left)
	if !e.holds(now) {
		r.store.log.Info("the last good copy is too old", "resource", r.key, "fetched_at", doc.FetchedAt)
		return
	}
	r.store.log.Info("read the last good copy", "resource", r.key, "fetched_at", doc.FetchedAt, "file", r.file.Path())
	r.admit(e)
}

// keepFile keeps the file up to date with memory, until the store closes. The place is part of it:
// at the next start it tells whether the document was purged meanwhile.
func (r *Reader[V]) keepFile() {
	var last entry[V]
	for watch.Wait(r.store.ctx, r.unsaved, time.Hour) {
		e := r.memory.Load()
		if e.doc == nil {
			last = entry[V]{} // removed by save
			continue
		}
		if e.etag() == last.etag() && e.fetchedAt == last.fetchedAt && e.place == last.place && e.redisFresh == last.redisFresh {
			continue
		}
		last = *e
		stale := e.servableUntil - max(r.o.StaleWhileRevalidate, r.o.StaleIfError) - watch.Now()
		d := lastgood.Document{
			ETag: e.doc.ETag, Source: e.source, UpstreamETag: e.doc.UpstreamETag, UpstreamLastModified: e.doc.UpstreamLastModified,
			Suspicions: e.doc.Suspicions,
			FetchedAt:  e.fetchedAt, ChangedAt: e.doc.ChangedAt.UnixMilli(), StaleFrom: time.Now().Add(stale).UnixMilli(),
			FreshUntil: e.redisFresh, Set: e.place.Set, Seq: e.place.Seq, Holds: int(e.place.Holds), Body: e.doc.Body,
		}
		r.warn(&r.unwritten, "the last good copy cannot be written", r.file.Save(r.store.ctx, &d))
		r.save() // if it was purged while it was written
		watch.Sleep(r.store.ctx, savePause)
	}
}
