package cache

import (
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// A keeper owns the copy. Its fields are its goroutine's own.
type keeper[V any] struct {
	*Reader[V]
	now view[V] // that will be published

	base    *cached[V]    // the last copy that was once stored and not purged: what the guard compares with
	brought *cached[V]    // by a load or a reading, for the poll that shows its etag
	changed lastChange    // of the last copy, purged or not
	token   string        // of the acquire that rides, or rode unanswered,
	rode    time.Duration // since then
	pause   time.Duration // before the next acquire, since Redis did not grant the last
	flight  *flight[V]    // a load under way, or one whose fill got no reply
	voids   int           // loads in a row that a hard purge made void
	reading *reread[V]    // nil: no body is being read
	bodies  chan *reread[V]
	damaged lease.Generation // of a body that cannot be used: what replaces it can have its etag
	over    int64            // the end of the last failure or lease that a load of this process came after
	ownHold bool             // Redis does not know of the hold
	heldAt  time.Duration    // when this process last held a document back
	left    time.Duration    // when the other replicas were asked to load
	renewed time.Duration    // when the fleet's source was
	wrote   lease.Generation // of the last document that this process has stored: set and number
	told    reported
	file    *saver[V] // nil: no last good file
}

// NewReader makes a reader of the resource key. One store has one reader for each.
func NewReader[V any](s *Store, key string, o ReaderOptions[V]) (*Reader[V], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := s.claim(key); err != nil {
		return nil, err
	}
	r := &Reader[V]{store: s, key: key, o: o, hash: s.hash(key), woken: make(chan struct{}, 1)}
	k := &keeper[V]{Reader: r, now: view[V]{saw: &poll.Result{}, sent: -time.Hour}, bodies: make(chan *reread[V], 1), left: -wantLasts}
	k.now.polled, k.now.changed = make(chan struct{}), make(chan struct{})
	if o.LastGood != "" {
		k.file = &saver[V]{file: lastgood.At(o.LastGood, key), log: s.o.Logger, key: key, windows: max(o.StaleWhileRevalidate, o.StaleIfError), woken: make(chan struct{}, 1)}
		k.recall()
	}
	first := k.now
	r.view.Store(&first)
	r.member = s.redis.Follow(r.hash)
	if k.file != nil {
		s.tasks.Go(func() { k.file.run(s.ctx, r.view.Load) })
	}
	go func() {
		defer s.tasks.Done()
		k.keep()
	}()
	return r, nil
}

// keep is the keeper: all changes to the copy are made here, in a row.
func (k *keeper[V]) keep() {
	ctx := k.store.ctx
	for ctx.Err() == nil {
		var done chan struct{}
		if k.flight != nil && k.flight.ended == 0 {
			done = k.flight.done
		}
		select {
		case p := <-k.member.Results:
			k.publish(k.apply(p))
		case <-done:
			if ctx.Err() != nil { // which has ended it
				continue
			}
			k.end(k.flight)
			k.publish(false)
		case b := <-k.bodies:
			k.took(b)
		case <-k.woken:
		case <-ctx.Done():
			continue
		}
		k.begin()
	}
	if k.flight != nil {
		<-k.flight.done
		k.giveUp(k.flight)
	}
}

// publish publishes the next view, if it is another state, or as of a poll that answers readers.
func (k *keeper[V]) publish(answers bool) {
	old, next := k.view.Load(), k.now
	next.reading = k.reading != nil
	next.loading = k.flight != nil || next.saw.Left > 0 && next.saw.Failure.Count == 0
	same := next.state == old.state
	if same && !answers {
		return
	}
	if next.polled, next.changed = make(chan struct{}), old.changed; !same {
		next.changed = make(chan struct{})
	}
	k.view.Store(&next)
	if k.file != nil {
		k.file.save(next.copy == nil && old.copy != nil)
	}
	close(old.polled)
	if !same {
		close(old.changed)
	}
	k.report()
}

// apply takes what a poll shows, and reports whether that answers readers.
func (k *keeper[V]) apply(p *poll.Result) bool {
	v := &k.now
	if p.Doubted && p.Sent == 0 {
		v.doubted = true
		return true
	}
	if p.Unreachable {
		k.token, k.reading = "", nil // that is no fault of the body
		k.settle(p)
		if v.unreachable = true; v.copy.standing(poll.Now()) < copyFresh && k.attends(v.copy) {
			k.wanted.Store(true)
		}
		return false
	}
	var was *lease.Generation
	if v.asked {
		was = &v.saw.Generation
	}
	became := became(was, p.Generation, p.Run != "" && p.Run == v.saw.Run || p.Run == "" && p.Conn == v.saw.Conn, p.Expired)
	c := v.copy
	switch became {
	case purged:
		c = nil
		k.purged(p)
	case lost:
		if v.asked && c != nil && c.source != gone && p.Expired != was.Seq { // an expiry is no loss
			k.store.o.Logger.Warn("redis lost its data; fetching again, and keeping the last good copy until then", "resource", k.key)
		}
	case kept:
	}
	if k.reading != nil && (k.reading.done || p.Holds != lease.Document || p.ETag != k.reading.of.ETag) { // nobody waits for that body any more
		k.reading = nil
	}
	c, withheld := k.next(c, became, p)
	if v.unreachable && c != nil && c.source == local { // to be stored
		c = c.dueFrom(p.Sent)
	}
	k.noteCopy(c, p)
	v.copy, v.unreachable, v.doubted = c, false, p.Doubted
	k.failing(p)
	k.fleet(p)
	accepted := p.Accepted && !v.saw.Accepted
	if v.saw, v.asked = p, true; !withheld {
		v.sent = p.Sent
	}
	k.settle(p)
	k.leases(p)
	if due := c.standing(poll.Now()) < copyFresh; accepted || due && (p.Wanted > 0 && !p.Foreign(k.o.Source) || k.attends(c)) {
		k.wanted.Store(true)
	}
	return !withheld
}

// attends reports whether c is loaded again when it is due, although nobody reads.
func (k *keeper[V]) attends(c *cached[V]) bool { return k.o.Always || c != nil && c.brief }

// purged notes a hard purge.
func (k *keeper[V]) purged(p *poll.Result) {
	if k.now.asked {
		k.store.purged(k.key, "hard", p, k.now.saw.Seq)
	}
	k.told.purge, k.base, k.ownHold, k.now.failure = true, nil, false, nil
	if k.o.Always {
		k.wanted.Store(true)
	}
}

// noteCopy notes what is new of a copy.
func (k *keeper[V]) noteCopy(c *cached[V], p *poll.Result) {
	old := k.now.copy
	if c == nil || c == old {
		return
	}
	k.changed = lastChange{c.doc.ETag, c.doc.ChangedAt}
	if c.source == stored {
		k.base = c
		if by := c.doc.RestoredBy; by != "" && (old == nil || old.doc.RestoredBy != by || old.doc.ETag != c.doc.ETag) {
			k.store.o.Logger.Info("serving a restored document, and fetching nothing", "resource", k.key, "until", c.doc.FreshUntil, "by", by)
		}
	}
	if c.mark >= 1 || c.source == gone {
		return
	}
	if f := k.now.failure; f != nil { // it does not count
		k.now.failure = &failure{err: f.err, count: f.count, till: f.till}
	}
	k.wanted.Store(true)
	if old != nil && old.fetched == c.fetched && (old.mark >= 1 || old.mark < 0 && c.mark == 0) {
		k.store.purged(k.key, "soft", p, p.Seq)
	}
}

// next is the copy after a poll, of which c was kept, or lost. Withheld says that the poll is not one
// that answers readers: a body is being read.
func (k *keeper[V]) next(c *cached[V], became fate, p *poll.Result) (next *cached[V], withheld bool) {
	r, same := &p.Record, k.now.asked && p.Generation == k.now.saw.Generation
	isDocument := r.Holds == lease.Document
	switch {
	case isDocument && r.Generation != k.damaged && (c == nil || c.source == stored && became != lost || c.loose || r.FetchedAt >= c.fetched && r.Generation != c.over):
		if t := k.find(c, r); t != nil {
			k.brought = nil
			return k.timed(t, c, p), false
		}
		k.read(r.Generation, r.Size)
		switch {
		case c == nil:
			return nil, false
		case became == lost:
			return c.lost(), false
		case !same && !follows(k.now.saw.Generation, p.Generation): // there may have been a purge in between
			return nil, false
		case c.source != stored:
		case k.reading != nil && poll.Now() < k.reading.since+k.store.trust/2: // what was seen before will do until the body is there
			return c, true
		default: // what replaces it is there
			return c.due(p.Sent), false
		}
	case c == nil:
		return nil, false
	case became == lost, c.source == gone, isDocument && !same:
		return c.lost(), false
	}
	return c.marked(&k.o, p), false // Redis refused it, or was unreachable
}

// find is Redis's document, if it is known: the copy, or what a load or a reading has brought.
func (k *keeper[V]) find(c *cached[V], r *lease.Record) *cached[V] {
	if c != nil && c.doc.ETag == r.ETag {
		return c
	}
	if k.brought != nil && k.brought.doc.ETag == r.ETag {
		return k.brought
	}
	if k.flight != nil {
		if l := k.flight.loaded.Load(); l != nil && l.doc.ETag == r.ETag {
			return l
		}
	}
	if k.base != nil && k.base.doc.ETag == r.ETag { // it went back into Redis with a hold
		return k.base
	}
	return nil
}

// failing learns from the lock record whether the last load, of any process, failed, and what is held
// back.
func (k *keeper[V]) failing(p *poll.Result) {
	v, another := &k.now, p.Generation != k.now.saw.Generation
	own := v.failure != nil && v.failure.own
	switch f := p.Failure; {
	case f.Count > 0 && (p.Left == 0 && own || p.LeaseUntil == k.over): // what this process knows is later
	case f.Count > 0:
		next := &failure{err: ErrHeld, count: f.Count, until: p.Sent + p.Left, till: p.LeaseUntil}
		if f.Code != lease.CodeHeld {
			next.err = k.o.CodeError(f.Code)
		}
		if p.Holds == lease.Document && p.FreshUntil == 0 { // before a soft purge, it does not count
			next.until = 0
		}
		if old := v.failure; old == nil || own || old.till != next.till || old.count != next.count || next.until == 0 && old.until != 0 {
			if old != nil && old.count == next.count && old.isHeld() == next.isHeld() { // this process may know more
				next.err = old.err
			}
			v.failure = next
		}
	case p.Lease == "" && !own, p.Holds == lease.Document && another:
		v.failure = nil
	}
	if p.Hold.Since > 0 || another {
		k.ownHold = false
	}
	hold := p.Hold
	if c := v.copy; c != nil && c.source != stored && c.source != gone && hold.Since > 0 && c.fetched > hold.Since { // over, and this poll does not know that
		hold = v.hold
	} else if c != nil && c.source == gone && hold.Since == 0 { // it was lost with the copy: the next load goes on with it
		hold = v.hold
	} else if k.told.end = ""; p.ReleasedAt > v.saw.Seq && p.ReleasedAt <= p.Seq && p.FetchedAt > k.told.held.Since { // since the last poll, and that hold
		k.told.end = p.Released
	}
	if !k.ownHold && p.Sent >= k.heldAt { // a poll sent before may not know of it
		v.hold = hold
	}
}

// leases begins the load of a lease that a poll shows, extends that of one under way, and ends a load
// whose fill would be refused, so that a purge during a slow fetch does not wait for what it voided;
// but loads are not thrown away faster than they can end.
func (k *keeper[V]) leases(p *poll.Result) {
	f := k.flight
	switch now := poll.Now(); {
	case f != nil && f.token != "" && p.Lease == f.token:
		if now-f.extended >= leaseRenews && now-f.began < k.most(f) {
			f.extended = now
			k.member.Ride(lease.Prolong(f.token, leaseLength))
		}
	case f != nil && f.token != "" && p.Sent > f.began && k.voids == 0 && f.loaded.Load() == nil:
		f.void()
	case k.token == "" || p.Sent < k.rode || f != nil:
	case p.Lease == k.token && p.Left > 0:
		k.store.accepted(k.key, "acquire")
		k.fly(k.token, refused)
		k.token = ""
	case p.Rode == k.token && p.Refusal != nil:
		k.store.refused(k.key, "acquire", p.Refusal, 0)
		k.fly("", refused)
		k.token = ""
	default: // another process fetches, or has fetched; or Redis takes the document for fresh
		k.token, k.pause = "", now+k.store.o.PurgeBound/2
	}
}
