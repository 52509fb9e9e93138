// Package watch is the connection to Redis: which server is asked for a key, whether it answers,
// and what it says of changes.
//
// A [Watch] follows one Redis: a single server, the master that a majority of Sentinels names, or
// the masters of a Cluster. Each is a [Server]: one address, with a pool of connections for calls
// and one more on which it pushes invalidations, both checked to reach the same process. A [Key] is
// one key of which changes are watched. Whoever reads the key takes a [Mark] first, and may trust
// what was read for as long as [Key.Trusts] says so: no change was received since, and the
// connection was heard from within the last moments.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options say where Redis is, and how soon after a purge nothing older may be served.
type Options struct {
	// URL is in go-redis's own forms: see the cache package. Required.
	URL string
	// Prefix is of the watched keys.
	Prefix string
	// Bound is how soon after a purge memory is not trusted any more, whatever breaks. Required.
	Bound time.Duration
	// Patience is how long Redis may be silent in a call. Required.
	Patience time.Duration
	// Log gets a line for each change of state. Required.
	Log *slog.Logger
}

// ErrNoServer means that it is not known which server to ask.
var ErrNoServer = errors.New("no master is known")

const (
	// idleAfter is how long after the last read of any key no heartbeats are needed.
	idleAfter = time.Second
	// readTick is how exactly the last read is known.
	readTick = 100 * time.Millisecond
	// never is a time long ago, forever one that does not come.
	never   = -1 << 62
	forever = 1 << 62
)

var started = time.Now()

// Now is the time on a clock that nobody sets: since the start of the process.
func Now() time.Duration { return time.Since(started) }

// A Watch follows one Redis until it is closed.
type Watch struct {
	o    Options
	dial *connector
	// heartbeat is how often a server is pinged while keys are read. trust is how old the last
	// answered ping may be while memory is trusted: what a purge can be overlooked for at the most.
	heartbeat, trust time.Duration

	// confirmed is when the list of masters was last known to be right.
	confirmed atomic.Int64
	read      atomic.Int64 // when a key was last read, to within readTick
	periods   atomic.Uint64

	mu      sync.Mutex // guards what follows
	keys    map[string]*Key
	servers map[string]*Server
	route   func(key string) (addr string) // nil until the masters are known
	settled chan struct{}                  // closed when it was asked for them once
	poked   chan struct{}                  // capacity 1: ask for the masters now

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Open starts to follow the Redis that o names. It fails on a URL that cannot be used, and not
// because Redis cannot be reached.
func Open(ctx context.Context, o Options) (*Watch, error) {
	dial, err := parseURL(o.URL, o.Patience)
	if err != nil {
		return nil, err
	}
	w := &Watch{
		o: o, dial: dial, heartbeat: o.Bound * 3 / 10, trust: o.Bound * 9 / 10,
		keys: map[string]*Key{}, servers: map[string]*Server{}, settled: make(chan struct{}), poked: make(chan struct{}, 1),
	}
	w.read.Store(never)
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.confirmed.Store(never)
	if dial.single != nil {
		w.redirect(func(string) string { return dial.single.Addr })
		w.confirmed.Store(forever)
		close(w.settled)
	} else {
		w.tasks.Go(w.followMasters)
	}
	return w, nil
}

// Close ends all connections and waits for what runs on them.
func (w *Watch) Close() {
	w.cancel()
	w.tasks.Wait()
	for _, s := range w.servers {
		s.end()
	}
}

// Addr is where redis-cli reaches Redis, host:port: of the first server where there are several.
func (w *Watch) Addr() string { return w.dial.addr() }

// Trust is how long what was read may be given out without a further sign of life from Redis.
func (w *Watch) Trust() time.Duration { return w.trust }

// Key starts to watch a key. Notify is called whenever there is reason to look at it again: a change,
// in the order in which Redis made them, or a connection made or lost. It must not wait.
func (w *Watch) Key(name string, notify func(changed bool)) *Key {
	k := &Key{w: w, name: w.o.Prefix + name, notify: notify}
	w.mu.Lock()
	w.keys[k.name] = k
	if w.route != nil {
		k.server.Store(w.serverAt(w.route(k.name)))
	}
	w.mu.Unlock()
	if s := k.server.Load(); s != nil {
		s.relisten()
	}
	return k
}

// Server is the server to ask for a key that is not watched.
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
	return w.serverAt(w.route(w.o.Prefix + name)), nil
}

// all are the servers that keys are asked of, or would be if there were any.
func (w *Watch) all() []*Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[*Server]bool{}
	for _, k := range w.keys {
		if s := k.server.Load(); s != nil {
			used[s] = true
		}
	}
	if len(w.keys) == 0 {
		return slices.Collect(maps.Values(w.servers))
	}
	return slices.Collect(maps.Keys(used))
}

// Up reports whether every server answered when it was last asked.
func (w *Watch) Up() bool {
	all := w.all()
	for _, s := range all {
		if s.away.Load() {
			return false
		}
	}
	return len(all) > 0
}

// Listening reports whether changes of all keys are received.
func (w *Watch) Listening() bool {
	all, now := w.all(), Now()
	for _, s := range all {
		if !s.live.Load() || !w.idle(now) && !s.heardOf(now) {
			return false
		}
	}
	return len(all) > 0
}

// RoundTrip is how long an answer of the slowest server takes, 0 when not known.
func (w *Watch) RoundTrip() (longest time.Duration) {
	for _, s := range w.all() {
		longest = max(longest, time.Duration(s.roundTrip.Load()))
	}
	return longest
}

// serverAt gives the server at addr, and starts it if there is none. It is called under mu.
func (w *Watch) serverAt(addr string) *Server {
	s := w.servers[addr]
	if s == nil {
		s = newServer(w, addr)
		w.servers[addr] = s
	}
	return s
}

// redirect puts each key on the server that route names, and ends those that none is on any more.
// What was read from another server is not trusted: its mark has that server's period.
func (w *Watch) redirect(route func(key string) string) (changed bool) {
	w.mu.Lock()
	w.route = route
	used := map[*Server]bool{w.serverAt(route(w.o.Prefix)): true}
	var moved []*Key
	for _, k := range w.keys {
		s := w.serverAt(route(k.name))
		used[s] = true
		if k.server.Swap(s) != s {
			moved = append(moved, k)
		}
	}
	var gone []*Server
	for addr, s := range w.servers {
		if !used[s] {
			gone = append(gone, s)
			delete(w.servers, addr)
		}
	}
	w.mu.Unlock()
	for s := range used {
		if len(moved) > 0 {
			s.relisten()
		}
	}
	for _, k := range moved {
		k.notify(false)
	}
	for _, s := range gone {
		s.end()
	}
	return len(moved) > 0 || len(gone) > 0
}

// on are the keys that are asked of s.
func (w *Watch) on(s *Server) []*Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []*Key
	for _, k := range w.keys {
		if k.server.Load() == s {
			keys = append(keys, k)
		}
	}
	return keys
}

// noteRead notes that a key is read: heartbeats are needed.
func (w *Watch) noteRead(now time.Duration) {
	last := w.read.Load()
	if int64(now)-last < int64(readTick) || !w.read.CompareAndSwap(last, int64(now)) {
		return
	}
	if int64(now)-last > int64(idleAfter) {
		w.poke()
		for _, s := range w.all() {
			s.poke()
		}
	}
}

// idle reports whether nobody has read for a while.
func (w *Watch) idle(now time.Duration) bool { return int64(now)-w.read.Load() > int64(idleAfter) }

// poke has the masters asked for at once.
func (w *Watch) poke() { signal(w.poked) }

// signal wakes whoever waits on a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep waits for d, or until ctx ends, which it reports as false.
func Sleep(ctx context.Context, d time.Duration) bool { return wait(ctx, nil, d) }

// wait sleeps, and wakes early when something comes on c.
func wait(ctx context.Context, c <-chan struct{}, d time.Duration) bool {
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
