package cache

import (
	"cmp"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/upstream/guard"
)

// reported is what was reported last of the view.
type reported struct {
	sight Sight
	held  guard.Record
	purge bool      // and that there was a purge since
	end   guard.End // why a hold ended since
}

// report reports what is in the view now, and what is held back, if it is news.
func (k *keeper[V]) report() {
	v, t := &k.now, &k.told
	k.reportHold()
	s := Sight{Key: k.key, Purged: t.purge}
	if v.copy != nil && v.copy.source != gone {
		s.Document, s.Alone = v.copy.doc, v.copy.source > filled
	}
	if v.asked {
		at := v.saw.Generation
		s.Own = at.Holds == lease.Document && at.Set == k.wrote.Set && at.Seq == k.wrote.Seq
		s.Set, s.Seq = at.Set, at.Seq
		removed := v.copy == nil && s.Seq > 0
		switch at.Holds {
		case lease.Nothing:
			if s.Purged = s.Purged || removed; s.Purged {
				s.Seq++
			}
		case lease.Placeholder: // the first one has replaced nothing
			s.Purged = s.Purged || removed && s.Seq > 1
		case lease.Document:
		}
	}
	last := t.sight
	t.sight = s
	if t.purge || s.Own && !last.Own || s.Set != last.Set || s.Seq != last.Seq || s.etag() != last.etag() || s.Purged != last.Purged {
		if t.purge = false; k.store.o.Events.Seen != nil {
			k.store.o.Events.Seen(s)
		}
	}
}

// reportHold reports a hold that has begun, or ended: it is one, however its findings change.
func (k *keeper[V]) reportHold() {
	v, last := &k.now, k.told.held
	end := k.told.end
	k.told.held, k.told.end = v.hold, ""
	same := last.Since > 0 && v.hold.Since > 0 && end == "" // as another replica has recorded it, where this one could not
	if same || last.Since == v.hold.Since || k.store.o.Events.Held == nil {
		return
	}
	if h := last.Hold(); h != nil {
		if end == "" && v.copy == nil {
			end = guard.Accepted // it was purged
		}
		k.store.o.Events.Held(k.key, h, cmp.Or(end, guard.Recovered))
	}
	if h := v.heldBack(poll.Now()); h != nil {
		k.store.o.Events.Held(k.key, h, "")
	} else {
		k.told.held = guard.Record{}
	}
}

// heldBack is what is known of the document that is held back, nil if there is none, or no copy any
// more. Its end is on this process's clock.
func (v *view[V]) heldBack(now time.Duration) *guard.Hold {
	h, wall := v.hold.Hold(), time.Now()
	if h == nil || v.copy.standing(now) == copyNone {
		return nil
	}
	end, server := wall.Add(v.copy.usable-now), wall.UnixMilli()
	if v.saw.Now > 0 {
		server = v.saw.Now + (now - v.saw.Sent).Milliseconds()
	}
	if h.Until != nil {
		if until := wall.Add(ms(h.Until.UnixMilli() - server)); until.Before(end) {
			end = until
		}
	}
	h.Until, h.Accepted = &end, v.saw.Accepted
	return h
}
