// Package poll asks Redis, every few milliseconds while there are readers, what it has.
//
// A [Redis] is one server, the master that Sentinels name, or a Cluster. One loop polls all documents
// over one connection (in a Cluster, one a document): it sends one pipeline, with the scripts in front
// that [Member.Ride] has brought, and passes each [Result] on. A loop goes on for a while after the
// last read, while a reader waits or a load runs, and while Redis is unreachable; otherwise it polls
// when it is asked to, and now and then. Bodies go over other connections to the same server.
package poll

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

	"vitrine/cache/lease"
)

// Options are the settings of a [Redis].
type Options struct {
	// URL is in go-redis's own forms: see the cache package. Required.
	URL string
	// Bound is how soon after a purge memory is no longer trusted. Required.
	Bound time.Duration
	// Patience is how long Redis can be silent in a call. Required.
	Patience time.Duration
	// Idle is the time between two polls while nobody reads.
	Idle time.Duration
	// MostBody is the longest body that is read, in bytes: a longer one ends its connection. Required.
	MostBody int
	// Log receives changes of state. Required.
	Log *slog.Logger
}

const (
	probePause = time.Second      // between two connections that compare the server
	doubtLasts = time.Second      // after a poll that timed out
	mostCall   = 10 * time.Second // of a command, which people wait for
	// pollBulk bounds what comes to a poll at once: nothing as long as a body, for which a client would
	// take the memory as soon as it is announced.
	pollBulk = 16 << 20
	// Slowest is how many bytes per second a link lets through at least.
	Slowest = 1 << 20
)

var started = time.Now()

// Now is the time on a clock that nobody sets.
func Now() time.Duration { return time.Since(started) }

// Sleep waits for d, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Wake wakes the receiver of a channel of capacity 1.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A Result is what a poll has shown of one document.
type Result struct {
	Sent        time.Duration
	Unreachable bool // polls in a row were not answered, all but the first on connections of their own
	Doubted     bool // a poll timed out lately: nobody waits for the next; nothing is new if no poll was sent
	lease.Record
	Run     string // the server process, where INFO names it,
	Conn    int64  // and the connection
	Rode    string // the token of the last acquire that was answered,
	Refusal error  // and its error
}

// A Redis is followed until it is closed.
type Redis struct {
	o    Options
	dial *connector

	mu    sync.Mutex       // guards loops
	loops map[string]*loop // by document in a Cluster; otherwise one, called ""

	unanswered, waits atomic.Int64
	ctx               context.Context
	cancel            context.CancelFunc
	tasks             sync.WaitGroup
}

// Open fails on an invalid URL, but not if Redis is unreachable.
func Open(ctx context.Context, o Options) (*Redis, error) {
	dial, err := parseURL(o.URL, o.Patience)
	if err != nil {
		return nil, err
	}
	r := &Redis{o: o, dial: dial, loops: map[string]*loop{}}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// Close ends all connections and waits for their goroutines.
func (r *Redis) Close() {
	r.cancel()
	r.tasks.Wait()
	for _, l := range r.loops {
		l.replace(nil)
	}
}

// Trust is how long what a poll has shown is served: nine tenths of the bound.
func (r *Redis) Trust() time.Duration { return r.o.Bound * 9 / 10 }

// Addr is the address in the URL, or several with commas between them.
func (r *Redis) Addr() string { return strings.Join(r.dial.seeds, ",") }

// Up reports whether Redis answered the last polls.
func (r *Redis) Up() bool {
	return r.all(func(l *loop) bool { return !l.unreachable.Load() })
}

// Answering reports whether purges are received: the last poll was answered, and not long ago.
func (r *Redis) Answering() bool {
	return r.all(func(l *loop) bool {
		return !l.unreachable.Load() && l.answered.Load() > 0 && Now()-time.Duration(l.answered.Load()) < r.o.Idle+r.o.Patience
	})
}

func (r *Redis) all(is func(*loop) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		if !is(l) {
			return false
		}
	}
	return len(r.loops) > 0
}

// RoundTrip is the time for an answer of the slowest server, 0 if unknown.
func (r *Redis) RoundTrip() (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		longest = max(longest, time.Duration(l.roundTrip.Load()))
	}
	return longest
}

// Enough is the purge bound that a round trip needs, 0 if the present one is enough: a hit never waits
// if a poll is answered before the one before it is too old.
func (r *Redis) Enough(roundTrip time.Duration) time.Duration {
	if max(r.o.Bound/6, roundTrip)+roundTrip <= r.Trust() {
		return 0
	}
	return (roundTrip * 23 / 10).Truncate(10*time.Millisecond) + 10*time.Millisecond
}

// Unanswered is how many polls were not answered.
func (r *Redis) Unanswered() int64 { return r.unanswered.Load() }

// Waits is how many answers waited for a poll.
func (r *Redis) Waits() int64 { return r.waits.Load() }

// A Member is a document that is polled.
type Member struct {
	// Results has the latest result alone: what matters in those before it, it shows as well.
	Results <-chan *Result

	results chan *Result
	hash    *lease.Hash
	loop    *loop
	rides   []lease.Ride // guarded by the loop's mutex
	set     string       // as of the last poll
	rode    string       // the token of the last acquire that was answered,
	refusal error        // and its error
}

// Follow has a document polled until the Redis is closed.
func (r *Redis) Follow(h *lease.Hash) *Member {
	l := r.loop(h.Key())
	m := &Member{results: make(chan *Result, 1), hash: h, loop: l}
	m.Results = m.results
	l.mu.Lock()
	l.members = append(l.members, m)
	first := len(l.members) == 1
	l.mu.Unlock()
	if first {
		r.tasks.Go(func() { l.run(r.ctx) })
	}
	Wake(l.woken)
	return m
}

// polls reports whether there is anything to poll.
func (l *loop) polls() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.members) > 0
}

func (r *Redis) loop(key string) *loop {
	name := ""
	if r.dial.cluster {
		name = key
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loops[name] == nil {
		r.loops[name] = &loop{r: r, key: key, woken: make(chan struct{}, 1)}
	}
	return r.loops[name]
}

// Read notes that the document is read.
func (m *Member) Read() {
	if !m.loop.reads.Load() {
		m.loop.reads.Store(true)
	}
}

// Wait notes that a reader waits, or that a load or the reading of a body runs, until end is called.
func (m *Member) Wait() (end func()) {
	m.loop.waiting.Add(1)
	return func() { m.loop.waiting.Add(-1) }
}

// Ask asks for a poll now.
func (m *Member) Ask() { Wake(m.loop.woken) }

// Ask asks for a poll of the server of a key now.
func (r *Redis) Ask(key string) { Wake(r.loop(key).woken) }

// Waited counts an answer that waits for a poll.
func (m *Member) Waited() { m.loop.r.waits.Add(1) }

// Ride has a script sent in front of the next poll.
func (m *Member) Ride(ride lease.Ride) {
	m.loop.mu.Lock()
	m.rides = append(m.rides, ride)
	m.loop.mu.Unlock()
	m.Ask()
}

// Drop has a connection replaced that may reach another server than the bodies' do.
func (m *Member) Drop(conn int64) { m.loop.drop.Store(conn) }

// Do calls f with a client for bodies, of the server that the polls reach; its ctx ends a moment after so
// many bytes could have gone over the slowest link twice. If ctx ends before, so does the link.
func (m *Member) Do(ctx context.Context, size int64, f func(ctx context.Context, c *redis.Client) error) error {
	stop := context.AfterFunc(ctx, func() { m.loop.replace(nil) })
	defer stop()
	limited, cancel := context.WithTimeout(ctx, max(2*m.loop.r.o.Patience, time.Second)+2*time.Duration(max(0, min(size, int64(m.loop.r.o.MostBody))))*time.Second/Slowest)
	defer cancel()
	return m.loop.do(limited, f)
}

// Do calls f with a client of the server of a key. If the server was not reached, it is called again,
// once and after a moment, if again is set.
func (r *Redis) Do(ctx context.Context, key string, again bool, f func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, mostCall)
	defer cancel()
	l := r.loop(key)
	err := l.do(ctx, f)
	if again && err != nil && !Replied(err) && Sleep(ctx, r.o.Bound) {
		if !l.polls() { // else the next poll notices that the link is broken
			l.replace(nil)
		}
		err = l.do(ctx, f)
	}
	return err
}

// Replied reports whether err is a reply of Redis; not one that says that another server has the key, or
// that Redis is not there yet.
func Replied(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return !moved && !asked && !redis.IsTryAgainError(err) && !redis.IsClusterDownError(err) && !redis.IsLoadingError(err) && !redis.IsMasterDownError(err)
}

// jitter is d, a tenth more or less: two processes do not stay in step.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
