package cache

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options say where the store is and how patient this process is with it.
type Options struct {
	// URL is redis://, rediss:// or unix:// for one server; the same with ?master_name=NAME for Sentinel, whose
	// addresses are then the host and each addr=…; or with ?addr=… alone for a Cluster. A store inside this process
	// ([vitrine/cache/embedded]) is opened apart, and its URL given here. Required.
	URL string
	// Prefix is of every key; "" is "vitrine:".
	Prefix string
	// Timeout is how long Redis may take to answer one call; 0 is 300 ms. Writing a document may take ten times that.
	Timeout time.Duration
	// Logger gets a line for each change of state; nil is silence.
	Logger *slog.Logger
	// Events are told to the caller's counters; a nil function is not called.
	Events Events
}

// Events are the things that happen in a store which somebody may want to count. They are called from the store's own
// goroutines, must not block, and key is without the prefix.
type Events struct {
	// Invalidated: the key was written or removed by somebody, this process included; all keys when key is "".
	Invalidated func(key string)
	// Purged: a look found that the document was removed ("hard") or declared stale ("soft") by an operator.
	Purged func(key, kind string)
	// Fetched: a load ended, with the outcome stored, renewed, refused by a purge (lost), soft, alone (Redis away) or failed.
	Fetched func(key, outcome string, took time.Duration, err error)
	// Incoherent: a sample found memory to differ from Redis without an invalidation under way.
	Incoherent func(key string)
}

const (
	defaultPrefix  = "vitrine:"
	defaultTimeout = 300 * time.Millisecond
	// probeFirst and probeMost bound the pause between two attempts to reach a Redis that is away.
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
)

// A Store is the Redis that all replicas share, as one process sees it: its client, whether it answers, and whether
// its invalidations are being heard. Readers are made on it.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	log     *slog.Logger
	events  Events
	addr    string
	holder  string // what this process calls itself in a lease
	started time.Time

	// epoch numbers the periods in which invalidations were heard without a gap. It is raised before a new period
	// counts as heard, so that what was admitted before is checked against Redis before it is trusted again.
	epoch    atomic.Uint64
	watchers atomic.Pointer[[]*watcher]
	// confirmed is the time on the store's clock at which the list of watchers was last known to be that of the masters.
	confirmed atomic.Int64
	away      atomic.Bool
	fault     chan struct{} // capacity 1: wakes the prober
	tokens    atomic.Uint64

	mu      sync.Mutex             // guards readers and closed
	readers map[string]invalidated // by key with the prefix
	closed  bool

	ctx    context.Context // of everything this store runs
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// invalidated is the side of a reader that hears of changes.
type invalidated interface {
	invalidate()
	wake()
}

// Open makes a store. It does not wait for Redis, and does not fail because Redis is away; it fails on a URL that
// cannot be used.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		prefix: o.Prefix, timeout: o.Timeout, log: o.Logger, events: o.Events,
		started: time.Now(), fault: make(chan struct{}, 1), readers: map[string]invalidated{},
	}
	s.holder = holderName()
	redis.SetLogger(clientLog{o.Logger})
	conn, err := parseURL(o.URL, o.Timeout)
	if err != nil {
		return nil, err
	}
	s.client, s.addr = conn.client(), conn.addr()
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.tasks.Go(s.probe)
	s.watch(conn)
	return s, nil
}

// stores counts those of this process, so that each has a name of its own.
var stores atomic.Uint64

// holderName is what a lease shows: enough for a person to find the process.
func holderName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%x.%d", host, os.Getpid(), time.Now().UnixMicro(), stores.Add(1))
}

// Addr is where redis-cli reaches the store, host:port: of the first server where there are several.
func (s *Store) Addr() string { return s.addr }

// Prefix is of every key.
func (s *Store) Prefix() string { return s.prefix }

// Up says that Redis answered when last asked.
func (s *Store) Up() bool { return !s.away.Load() }

// Listening says that purges are being heard right now.
func (s *Store) Listening() bool { return s.heard(s.now()) }

// Ping asks Redis for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Close ends what the store runs, fetches under way included, and waits for it. Leases held are given back.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.tasks.Wait()
	return s.client.Close()
}

// goTask runs f until the store closes; false when it has.
func (s *Store) goTask(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(f)
	return true
}

// now is the time since the store was opened, on a clock that nobody sets.
func (s *Store) now() time.Duration { return time.Since(s.started) }

// token names one lease.
func (s *Store) token() string {
	return fmt.Sprintf("%s/%d", s.holder, s.tokens.Add(1))
}

func (s *Store) register(key string, r invalidated) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if _, twice := s.readers[s.prefix+key]; twice {
		return fmt.Errorf("cache: %q has a reader already", key)
	}
	s.readers[s.prefix+key] = r
	return nil
}

// invalidate passes on what the watcher heard: the key, with its prefix, or all keys when it is "".
func (s *Store) invalidate(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" {
		if r := s.readers[key]; r != nil {
			r.invalidate()
			s.tell(strings.TrimPrefix(key, s.prefix))
		}
		return
	}
	for _, r := range s.readers {
		r.invalidate()
	}
	s.tell("")
}

func (s *Store) purged(key, kind string) {
	serving := "nothing older than what is fetched now"
	if kind == "soft" {
		serving = "the stale copy, until a new one is there"
	}
	s.log.Info("purge heard", "resource", key, "kind", kind, "serving", serving)
	if s.events.Purged != nil {
		s.events.Purged(key, kind)
	}
}

func (s *Store) fetched(key, outcome string, took time.Duration, err error) {
	if s.events.Fetched != nil {
		s.events.Fetched(key, outcome, took, err)
	}
}

func (s *Store) tell(key string) {
	if s.events.Invalidated != nil {
		s.events.Invalidated(key)
	}
}

// wakeAll makes every reader look at Redis again.
func (s *Store) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		r.wake()
	}
}

// failed notes that a call to Redis came to nothing: until the prober has reached it again nobody else tries.
func (s *Store) failed(err error) {
	if s.ctx.Err() != nil || s.away.Swap(true) {
		return
	}
	s.log.Warn("redis is away: serving from memory and the CMS, this process on its own", "redis", s.addr, "error", err)
	select {
	case s.fault <- struct{}{}:
	default:
	}
}

// probe waits for a fault, then pings until Redis answers again, with growing pauses.
func (s *Store) probe() {
	pause, back := probeFirst, time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.fault:
		}
		// Redis may refuse what a PING does not need (memory full, read-only): while returns are short, pauses grow.
		if time.Since(back) > 10*probeMost {
			pause = probeFirst
		}
		since := time.Now()
		for {
			if !sleep(s.ctx, jitter(pause)) {
				return
			}
			pause = min(2*pause, probeMost)
			if err := s.Ping(s.ctx); err == nil {
				break
			}
		}
		back = time.Now()
		s.away.Store(false)
		s.log.Info("redis is back", "redis", s.addr, "after", time.Since(since).Round(time.Millisecond))
		s.wakeAll()
	}
}

// sleep waits for d, or until ctx ends, which it reports as false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
