package cache

import (
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// The source of a copy: where it stands with Redis.
type source int

const (
	stored  source = iota // Redis has it
	filled                // Redis has said so, and no poll has shown it
	refused               // Redis refused to store it
	local                 // it was fetched while Redis was unreachable
	gone                  // Redis has lost it
)

// A cached copy is a document and what is known of it. It is never modified.
type cached[V any] struct {
	doc     *Document
	value   V
	source  source
	config  string           // the fingerprint of the configuration that it was fetched with
	fetched int64            // by Redis's clock
	mark    int64            // fresh_until as it was read, or when its load began: another one below 1 is a soft purge
	loaded  time.Duration    // when a load of this process had brought it, 0 for none,
	status  int              // and the status of the CMS's response
	brief   bool             // this process loaded it to be fresh for less than the TTL, and loads it again then
	over    lease.Generation // as of when its load began: it is the later one
	loose   bool             // it was compared with nothing, and yields to any document of Redis

	// From ahead on a read has it fetched anew; it is fresh until fresh, served at once until revalid,
	// and if the CMS fails until usable.
	ahead, fresh, revalid, usable time.Duration
}

// A standing is how good a copy is.
type standing int

const (
	copyNone   standing = iota // or too old to be served
	copyStale                  // past the window in which it is served while it is refreshed
	copyAging                  // within that window
	copyEnding                 // fresh, for its last tenth
	copyFresh
)

func (c *cached[V]) standing(now time.Duration) standing {
	switch {
	case c == nil || now >= c.usable:
		return copyNone
	case now < c.ahead:
		return copyFresh
	case now < c.fresh:
		return copyEnding
	case now < c.revalid:
		return copyAging
	}
	return copyStale
}

// timed is t as Redis's document. Its times are those of c, if that was it already.
func (k *keeper[V]) timed(t, c *cached[V], p *poll.Result) *cached[V] {
	r := &p.Record
	known := c != nil && t == c && c.source == stored && c.fetched == r.FetchedAt && c.doc.RestoredBy == r.RestoredBy && c.doc.Suspicions == r.Suspicions
	if known && c.mark == r.FreshUntil {
		return c
	}
	n := *t
	n.source, n.config, n.fetched, n.mark, n.loose = stored, r.Source, r.FetchedAt, r.FreshUntil, false
	if t.source == stored && t.fetched != r.FetchedAt { // another process renewed it
		n.brief = false
	}
	if !known || r.FreshUntil >= 1 {
		natural := p.Sent + min(ms(r.FetchedAt-r.Now), 0) + k.o.TTL
		n.fresh = p.Sent + ms(r.FreshUntil-r.Now)
		if r.FetchedAt > r.Now { // its clock was set back
			n.fresh = min(n.fresh, p.Sent)
		}
		switch n.ahead = min(natural, n.fresh); {
		case r.RestoredBy != "": // it is due then, not earlier
			n.ahead = n.fresh
		case r.FreshUntil < 1:
			n.fresh = natural
		default: // nobody fills one that is fresh for longer
			n.fresh = min(n.fresh, natural+k.o.TTL/10+time.Millisecond)
		}
		n.until(&k.o, max(natural, n.fresh))
	}
	if r.FreshUntil < 1 && (!known || c.mark != 0) {
		n.soften(&k.o, p.Sent)
	}
	if r.Source != k.o.Source && r.RestoredBy == "" && !r.Foreign(k.o.Source) {
		n = *n.due(p.Sent)
	}
	n.stamp(time.UnixMilli(r.ChangedAt), p.Sent+min(ms(r.FetchedAt-r.Now), 0), r.RestoredBy)
	n.doc.Suspicions, n.doc.Age = r.Suspicions, r.Age
	return &n
}

// soften ends the freshness of a copy that was purged softly: its stale windows count from when that was
// seen. The copy is shared with nobody yet.
func (c *cached[V]) soften(o *ReaderOptions[V], seen time.Duration) {
	c.ahead, c.fresh = min(c.ahead, seen), min(c.fresh, seen)
	c.revalid, c.usable = min(c.revalid, seen+o.StaleWhileRevalidate), min(c.usable, seen+max(o.StaleWhileRevalidate, o.StaleIfError))
}

// marked is a copy that Redis does not have, after a poll: a soft purge of what Redis has reaches it, too.
func (c *cached[V]) marked(o *ReaderOptions[V], p *poll.Result) *cached[V] {
	if c.mark == p.FreshUntil || p.Holds == lease.Nothing {
		return c
	}
	n := *c
	if n.mark = p.FreshUntil; n.mark < 1 && c.mark != 0 {
		n.soften(o, p.Sent)
	}
	return &n
}

// stamp writes the times into the document that is shown, which is shared with nobody yet.
func (c *cached[V]) stamp(changed time.Time, fetched time.Duration, restoredBy string) {
	wall, now, doc := time.Now(), poll.Now(), *c.doc
	doc.FetchedAt, doc.FreshUntil, doc.ChangedAt, doc.RestoredBy = wall.Add(fetched-now), wall.Add(c.fresh-now), changed, restoredBy
	c.doc = &doc
}

// until sets the end of the windows of a copy that is fresh until end.
func (c *cached[V]) until(o *ReaderOptions[V], end time.Duration) {
	c.revalid = end + o.StaleWhileRevalidate
	c.usable = max(c.revalid, end+o.StaleIfError)
}

// lost is c once Redis has lost it: it is served only if the CMS fails.
func (c cached[V]) lost() *cached[V] {
	c.source, c.over, c.ahead, c.fresh, c.revalid = gone, lease.Generation{}, 0, 0, 0
	return &c
}

// due is c as stale from then on.
func (c cached[V]) due(from time.Duration) *cached[V] {
	c.ahead, c.fresh = min(c.ahead, from), min(c.fresh, from)
	return &c
}

// dueFrom is c as fresh as before, and to be fetched from then on.
func (c cached[V]) dueFrom(from time.Duration) *cached[V] {
	c.ahead = min(c.ahead, from)
	return &c
}

// document is what is shown of c, if there is one.
func (c *cached[V]) document() *Document {
	if c == nil {
		return nil
	}
	return c.doc
}

// as is c with another source.
func (c cached[V]) as(s source) *cached[V] {
	c.source = s
	return &c
}
