package cache

import "vitrine/cache/lease"

// see reports what is in memory now, and what is held back, if it is news.
func (r *Reader[V]) see(purged bool) {
	r.seeing.Lock()
	defer r.seeing.Unlock()
	s, e := Sight{Key: r.key}, r.memory.Load()
	if hold := e.hold; hold != r.told {
		if r.told = hold; r.store.events.Held != nil {
			r.store.events.Held(r.key, r.heldBack(e))
		}
	}
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
	if p := r.pause.Load(); !p.isHeld() {
		s.Failures, s.Err = p.count, p.err
	}
	last := r.sight
	if r.sight = s; purged || s.Set != last.Set || s.Seq != last.Seq || s.Failures != last.Failures || s.etag() != last.etag() || s.Purged != last.Purged {
		if r.store.events.Seen != nil {
			r.store.events.Seen(s)
		}
	}
}
