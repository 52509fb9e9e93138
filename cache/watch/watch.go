// Package watch is the connection to Redis: which server has a key, whether it is reachable, and
// which keys change.
//
// A [Watch] follows one Redis: a single server, the master that a majority of Sentinels names, or
// the masters of a Cluster. Each is a [Server]: one address, with a pool of connections for calls
// and one more on which it pushes invalidations, both checked to reach the same process. A [Key] is
// one watched key.
//
// One read of a key goes like this:
//
//  1. the reader takes a [Mark], the number of changes received so far;
//  2. it reads the key over the pool;
//  3. it trusts the result while [Key.Trusts] holds: no change was received since the mark, and
//     Redis has answered a ping on the listening connection within the trust window.
package watch

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// Open starts to follow the Redis that o names. It fails on an invalid URL, but not if Redis is
// unreachable.
func Open(ctx context.Context, o Options) (*Watch, error) {
	dial, err := parseURL(o.URL, o.Patience)
	if err != nil {
		return nil, err
	}
	w := &Watch{
		o: o, dial: dial, heartbeat: o.Bound * 3 / 10, trust: o.Bound * 9 / 10,
		keys: map[string]*Key{}, others: map[string]bool{}, servers: map[string]*Server{}, settled: make(chan struct{}), poked: make(chan struct{}, 1),
	}
	w.read.Store(never)
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.confirmed.Store(never)
	if dial.voter == nil {
		w.route = func(string) string { return dial.seeds[0] }
		w.confirmed.Store(forever)
		close(w.settled)
	} else {
		w.tasks.Go(w.followMasters)
	}
	return w, nil
}

// Close ends all connections and waits for their goroutines.
func (w *Watch) Close() {
	w.cancel()
	w.tasks.Wait()
	for _, s := range w.servers {
		s.end()
	}
}

// Trust is how long a value read can be served without another sign of life from Redis.
func (w *Watch) Trust() time.Duration { return w.trust }

// Key starts to watch a key and the one beside it, which is in the same slot. Notify is called in
// Redis's order, from the goroutine that reads the connection: it must not block.
func (w *Watch) Key(name, beside string, notify func(Event)) *Key {
	k := &Key{w: w, name: w.o.Prefix + name, beside: beside, notify: notify}
	k.changes.Store(1)
	k.session.Store(math.MaxUint64)
	w.mu.Lock()
	w.keys[k.name] = k
	if w.route != nil {
		k.server.Store(w.serverAt(w.route(k.name)))
	}
	w.mu.Unlock()
	if s := k.server.Load(); s != nil {
		Signal(s.again)
	}
	return k
}

// Server returns the server of a key that is not watched.
func (w *Watch) Server(ctx context.Context, name string) (*Server, error) {
	select {
	case <-w.settled:
	case <-ctx.Done():
		return nil, ErrNoServer
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.route == nil {
		return nil, ErrNoServer
	}
	name = w.o.Prefix + name
	w.others[name] = true
	if s := w.serverAt(w.route(name)); s != nil {
		return s, nil
	}
	return nil, ErrNoServer
}

// all are the servers of the keys.
func (w *Watch) all() []*Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[*Server]bool{}
	for _, k := range w.keys {
		if s := k.server.Load(); s != nil {
			used[s] = true
		}
	}
	return slices.Collect(maps.Keys(used))
}

// Up reports whether every server answered when it was last asked.
func (w *Watch) Up() bool {
	all := w.all()
	for _, s := range all {
		if s.away.Load() != 0 {
			return false
		}
	}
	return len(all) > 0
}

// Listening reports whether changes of all keys are received.
func (w *Watch) Listening() bool {
	all, now := w.all(), Now()
	for _, s := range all {
		if !s.listening() || !w.idle(now) && !s.current(now) {
			return false
		}
	}
	return len(all) > 0
}

// RoundTrip is the round trip to the slowest server, or 0 if unknown.
func (w *Watch) RoundTrip() (longest time.Duration) {
	for _, s := range w.all() {
		longest = max(longest, time.Duration(s.roundTrip.Load()))
	}
	return longest
}

// NoteRead records that a key is read, so that the heartbeats which trust needs continue.
func (w *Watch) NoteRead(now time.Duration) {
	last := w.read.Load()
	if int64(now)-last < int64(readTick) || !w.read.CompareAndSwap(last, int64(now)) {
		return
	}
	if int64(now)-last > int64(idleAfter) {
		Signal(w.poked)
		for _, s := range w.all() {
			Signal(s.poked)
		}
	}
}
