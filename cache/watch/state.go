package watch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
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
	// topologyPause is how often Sentinels or the nodes of a Cluster are asked for the masters
	// while keys are read; topologyIdle while nobody reads.
	topologyPause = 250 * time.Millisecond
	topologyIdle  = 5 * time.Second
	// topologyWindow is how old their last answer can be while memory is trusted: a demoted master
	// answers pings as before.
	topologyWindow = time.Second
)

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

// A Server is the Redis at one address.
type Server struct {
	w    *Watch
	addr string

	pool atomic.Pointer[redis.Client]
	run  atomic.Pointer[string] // run_id of the process that the newest connection leads to, nil if unknown
	away atomic.Int64           // since when it cannot be read; 0: it can

	// The listening connection: see session.go.
	answered  atomic.Int64 // when the last answered ping was sent; never while not connected
	begun     atomic.Int64 // when the last session did
	roundTrip atomic.Int64
	deaf      bool // the server refuses tracking
	far       bool // the round trip is too long for the bound

	poked  chan struct{} // capacity 1: ping now
	broken chan struct{} // capacity 1: the server is unreachable
	again  chan struct{} // capacity 1: listen on a new connection

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// A Key is a watched key, and the one beside it.
type Key struct {
	w            *Watch
	name, beside string
	notify       func(Event)

	server atomic.Pointer[Server]
	// changes counts the changes received, and the sessions that began: the first answer to a ping
	// of a session is one more, so that nothing read before it is trusted. It begins with 1.
	changes atomic.Uint64
	// besides counts the changes of the key beside it. Flushed is what changes was when everything was
	// invalidated last, named when the key itself was, and session when the last session began: never,
	// until the first.
	besides, flushed, named, session atomic.Uint64
	// parted is what changes was when the link was lost last after changes of that session.
	parted atomic.Uint64

	mu sync.Mutex // guards the fields below, and changes to those above
	// own is what changes will be once the own writes of this session have been announced, the last of
	// which was over at wrote.
	own   uint64
	wrote time.Duration
}

// An Event is a reason to read a key again.
type Event int

// The events of a key.
const (
	// Changed: the key was written or removed, perhaps by this process, or everything was.
	Changed Event = iota
	// Beside: the key beside it changed, which withdraws nothing.
	Beside
	// Lost: the listening connection ended, or the server cannot be read.
	Lost
	// Back: changes are received again, or the server can be read again, or another server has the
	// key.
	Back
)

// Addr is the address in the URL, host:port, or several with commas between them.
func (w *Watch) Addr() string { return strings.Join(w.dial.seeds, ",") }

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

// idle reports whether nobody has read for a while.
func (w *Watch) idle(now time.Duration) bool { return int64(now)-w.read.Load() > int64(idleAfter) }

// pace is the pause between two signs of life: often while keys are read, otherwise idle.
func (w *Watch) pace(often, idle time.Duration) time.Duration {
	if w.idle(Now()) {
		return idle
	}
	return often
}

// listening reports whether changes are received.
func (s *Server) listening() bool { return s.answered.Load() != never }

// current reports whether every change acknowledged before now minus the trust has been received.
func (s *Server) current(now time.Duration) bool {
	return int64(now)-s.answered.Load() <= int64(s.w.trust) && int64(now)-s.w.confirmed.Load() <= int64(topologyWindow)
}

// Now is the time on a monotonic clock, since the start of the process.
func Now() time.Duration { return time.Since(started) }

var started = time.Now()

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

// Jitter spreads d by a quarter to either side.
func Jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
