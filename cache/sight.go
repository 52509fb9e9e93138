package cache

import (
	"sync"

	"vitrine/cache/lease"
)

// A Sight is what a process sees of a resource. Each change is seen by every process that reads the
// resource, some more than once.
type Sight struct {
	Key string
	// Set and Seq are where Redis is in its history of the resource: see [lease.Place]. After a hard
	// purge Seq is the number of the stub that replaces the document.
	Set string
	Seq int64
	// Document is what Redis holds, or, if Alone, what this process loaded and Redis does not hold.
	// Nil if there is neither.
	Document *Document
	Alone    bool
	// Purged says that the document was purged (hard), perhaps before this process began.
	Purged bool
	// Failures are how many fetches in a row have failed, in all processes, and Err is the last one's.
	Failures int
	Err      error
}

// sightings are those of a reader.
type sightings struct {
	mu   sync.Mutex // guards last, and keeps sights in order
	last Sight
}

// see reports what is in memory now, if it is news.
func (r *Reader[V]) see(purged bool) {
	if r.store.events.Seen == nil {
		return
	}
	r.sights.mu.Lock()
	defer r.sights.mu.Unlock()
	s := Sight{Key: r.key}
	if e := r.memory.Load(); e != nil {
		s.Set, s.Seq = e.place.Set, e.place.Seq
		if e.origin != originLost {
			s.Document, s.Alone = e.doc, e.origin != originStored
		}
		switch removed := s.Document == nil && s.Seq > 0; e.place.Holds {
		case lease.Nothing:
			s.Purged = purged || removed
			if s.Purged {
				s.Seq++
			}
		case lease.Stub: // the first one has replaced nothing
			s.Purged = purged || removed && s.Seq > 1
		case lease.Document, lease.Unknown:
			s.Purged = purged
		}
	}
	if p := r.pause.Load(); p != nil && !p.isHeld() {
		s.Failures, s.Err = p.count, p.err
	}
	last := r.sights.last
	if r.sights.last = s; purged || s.Set != last.Set || s.Seq != last.Seq || s.Failures != last.Failures || s.etag() != last.etag() || s.Purged != last.Purged {
		r.store.events.Seen(s)
	}
}

func (s *Sight) etag() string {
	if s.Document == nil {
		return ""
	}
	return s.Document.ETag
}
