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
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a [Watch].
type Options struct {
	// URL is in go-redis's own forms: see the cache package. Required.
	URL string
	// Prefix is the prefix of the watched keys.
	Prefix string
	// Bound is how soon after a purge memory is no longer trusted, whatever breaks. Required.
	Bound time.Duration
	// Patience is how long Redis can be silent in a call. Required.
	Patience time.Duration
	// Log receives changes of state. Required.
	Log *slog.Logger
}

// ErrNoServer means that the server of a key is unknown.
var ErrNoServer = errors.New("no master is known")

const (
	// idleAfter is how long after the last read of any key no heartbeats are needed.
	idleAfter = time.Second
	// readTick is the precision of the time of the last read.
	readTick = 100 * time.Millisecond
	// never is a time long ago, forever one that is never reached.
	never   = -1 << 62
	forever = 1 << 62
)

var started = time.Now()

// Now is the time on a monotonic clock, since the start of the process.
func Now() time.Duration { return time.Since(started) }

// A Watch follows one Redis until it is closed.
type Watch struct {
	o    Options
	dial *connector
	// heartbeat is how often a server is pinged while keys are read. trust is how old the last
	// answered ping can be while memory is trusted: the longest time a purge can be overlooked.
	heartbeat, trust time.Duration

	// confirmed is when the list of masters was last confirmed.
	confirmed atomic.Int64
	read      atomic.Int64 // when a key was last read, to within readTick

	mu      sync.Mutex      // guards the fields below
	keys    map[string]*Key // by name
	others  map[string]bool // the names that Server was called with
	servers map[string]*Server
	route   func(key string) (addr string) // nil until the masters are known
	settled chan struct{}                  // closed after the first round
	poked   chan struct{}                  // capacity 1: ask for the masters now

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

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

// Addr is the address in the URL, host:port, or several with commas between them.
func (w *Watch) Addr() string { return strings.Join(w.dial.seeds, ",") }

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

// tracked are the prefixes of the keys: each key's name, and what the names of those beside them
// begin with. Of two of which one begins the other it is the shorter, since Redis refuses prefixes
// that overlap, and with them all tracking.
func tracked(keys []*Key) (prefixes []string) {
	for _, k := range keys {
		beside, _, _ := strings.Cut(k.beside, "{")
		prefixes = append(prefixes, k.name, beside)
	}
	slices.Sort(prefixes)
	shortest := prefixes[:0]
	for _, p := range prefixes {
		if n := len(shortest); n == 0 || !strings.HasPrefix(p, shortest[n-1]) {
			shortest = append(shortest, p)
		}
	}
	return shortest
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
	addr := w.route(name)
	if addr == "" {
		return nil, ErrNoServer
	}
	return w.serverAt(addr), nil
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

// serverAt returns the server at addr, and starts it if there is none. It is called with mu held.
func (w *Watch) serverAt(addr string) *Server {
	s := w.servers[addr]
	if s == nil {
		s = newServer(w, addr)
		w.servers[addr] = s
	}
	return s
}

// redirect moves each key to the server that route names, and ends servers without keys.
func (w *Watch) redirect(route func(key string) string) {
	w.mu.Lock()
	w.route = route
	used := map[string]*Server{}
	for name := range w.others {
		if addr := route(name); addr != "" {
			used[addr] = w.serverAt(addr)
		}
	}
	moved := map[*Key]*Server{}
	for name, k := range w.keys {
		s := w.serverAt(route(name))
		if used[s.addr] = s; k.server.Load() != s {
			moved[k] = s
		}
	}
	before := w.servers
	w.servers = maps.Clone(used)
	w.mu.Unlock()
	for k, s := range moved {
		k.lose()
		k.move(s)
	}
	if len(moved) > 0 {
		for _, s := range used {
			Signal(s.again)
		}
		w.o.Log.Info("redis masters changed", "redis", slices.Sorted(maps.Keys(used)))
	}
	for k := range moved {
		k.notify(Back)
	}
	for addr, s := range before {
		if used[addr] == nil {
			w.tasks.Go(s.end) // which may hang
		}
	}
}

// on are the keys of s.
func (w *Watch) on(s *Server) (keys []*Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		if k.server.Load() == s {
			keys = append(keys, k)
		}
	}
	return keys
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

// idle reports whether nobody has read for a while.
func (w *Watch) idle(now time.Duration) bool { return int64(now)-w.read.Load() > int64(idleAfter) }

// pace is the pause between two signs of life: often while keys are read, otherwise idle.
func (w *Watch) pace(often, idle time.Duration) time.Duration {
	if w.idle(Now()) {
		return idle
	}
	return often
}

// Signal wakes the receiver of a channel of capacity 1.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep waits for d, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return Wait(ctx, nil, d) }

// Wait sleeps, and wakes early on a receive from c.
func Wait(ctx context.Context, c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c:
	case <-t.C:
	}
	return true
}
