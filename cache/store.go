package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// Options are the settings of a [Store].
type Options struct {
	// URL is redis://, rediss:// or unix:// for one server; the same with ?master_name=NAME for
	// Sentinel, whose addresses are then the host and each addr=…; or with ?addr=… alone for a
	// Cluster. A store inside this process ([vitrine/cache/embedded]) is opened separately, and its
	// URL given here. Required.
	URL string
	// Prefix is the prefix of every key; "" is "vitrine:".
	Prefix string
	// PurgeBound is how soon after a purge no reader returns anything older; 0 is 50 ms.
	PurgeBound time.Duration
	// Timeout is how long Redis can be silent in one call; 0 is 300 ms, or six times the purge
	// bound if that is longer, and at most 5 s.
	Timeout time.Duration
	// Logger receives changes of state; nil discards them.
	Logger *slog.Logger
	// Events are the caller's counters; a nil function is not called.
	Events Events
}

// Events are notifications for counting. They are called from the store's own goroutines and must
// not block; key is without the prefix.
type Events struct {
	// Purged: a look found that an operator removed the document ("hard") or declared it stale
	// ("soft").
	Purged func(key, kind string)
	// Fetched: a load ended, with the outcome stored, renewed, soft, lost (refused by a purge),
	// alone (not stored: Redis is unreachable or refuses), held (back) or failed.
	Fetched func(key, outcome string, took time.Duration, err error)
	// Held: a document is held back, for a new reason; or, if h is nil, none is any longer.
	Held func(key string, h *HeldBack)
	// Incoherent: a sample found memory to differ from Redis without an invalidation under way.
	Incoherent func(key string)
	// Damaged: Redis holds a document that cannot be used; once for each.
	Damaged func(key string)
	// Seen: this process has looked at the resource, or loaded it, and something may have happened to
	// it.
	Seen func(Sight)
}

const (
	defaultPrefix = "vitrine:"
	defaultBound  = 50 * time.Millisecond
	leastTimeout  = 300 * time.Millisecond
	mostTimeout   = 5 * time.Second
)

// A Store is the Redis that all replicas share, as one process sees it. A process can have several,
// on one Redis or on different ones.
type Store struct {
	watch  *watch.Watch
	prefix string
	holder string // the name of this store in a lease
	bound  time.Duration
	log    *slog.Logger
	events Events
	tokens atomic.Uint64

	mu   sync.Mutex        // guards keys, and the end of ctx
	keys map[string]string // of readers, and why Redis refused the last write of each, or ""

	ctx    context.Context // of everything this store runs
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Open makes a store. It does not wait for Redis, and does not fail because Redis is unreachable;
// it fails on a URL that cannot be used.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.PurgeBound <= 0 {
		o.PurgeBound = defaultBound
	}
	if o.Timeout <= 0 {
		o.Timeout = min(max(leastTimeout, 6*o.PurgeBound), mostTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	redis.SetLogger(clientLog{o.Logger})
	w, err := watch.Open(ctx, watch.Options{URL: o.URL, Prefix: o.Prefix, Bound: o.PurgeBound, Patience: o.Timeout, Log: o.Logger})
	if err != nil {
		return nil, err
	}
	s := &Store{
		watch: w, prefix: o.Prefix, holder: holderName(), bound: o.PurgeBound,
		log: o.Logger, events: o.Events, keys: map[string]string{},
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// stores counts the stores of this process, so that each has its own name.
var stores atomic.Uint64

// holderName names the process in a lease.
func holderName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%x.%d", host, os.Getpid(), time.Now().UnixMicro(), stores.Add(1))
}

// Addr is the address in the URL, host:port, or several with commas between them.
func (s *Store) Addr() string { return s.watch.Addr() }

// Prefix is the prefix of every key.
func (s *Store) Prefix() string { return s.prefix }

// Up reports whether Redis answered when it was last asked.
func (s *Store) Up() bool { return s.watch.Up() }

// Listening reports whether purges are received.
func (s *Store) Listening() bool { return s.watch.Listening() }

// RoundTrip is the average time for an answer of Redis, 0 if unknown.
func (s *Store) RoundTrip() time.Duration { return s.watch.RoundTrip() }

// Enough is the purge bound that a round trip needs for memory to be trusted; 0 if the present one
// is enough.
func (s *Store) Enough(roundTrip time.Duration) time.Duration {
	if need := watch.Enough(roundTrip); need > s.bound {
		return need
	}
	return 0
}

// Refusing is why Redis refused the last write of a resource, in its own words, or "".
func (s *Store) Refusing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if s.keys[key] != "" {
			return s.keys[key]
		}
	}
	return ""
}

// refusing records why Redis refuses to store a resource, "" if it does not.
func (s *Store) refusing(key, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = reason
}

// Ping pings Redis.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "", func(c redis.Cmdable) error { return c.Ping(ctx).Err() })
}

// Purge purges as redis-cli would: DEL of the key, or, if soft, HSET fresh_until 0 if it exists.
// Every process on this Redis receives it. It reports whether there was anything.
func (s *Store) Purge(ctx context.Context, key string, soft bool) (held bool, err error) {
	return call(ctx, s, key, func(c redis.Cmdable) (bool, error) { return s.hash(key).Purge(ctx, c, soft, false) })
}

// Forget is a hard Purge that removes the history too.
func (s *Store) Forget(ctx context.Context, key string) (held bool, err error) {
	return call(ctx, s, key, func(c redis.Cmdable) (bool, error) { return s.hash(key).Purge(ctx, c, false, true) })
}

// do calls f, whose errors say that they are Redis's, with the server of a key.
func (s *Store) do(ctx context.Context, key string, f func(redis.Cmdable) error) error {
	server, err := s.watch.Server(ctx, key)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return server.Do(ctx, true, f)
}

// call is do for a call with a result.
func call[T any](ctx context.Context, s *Store, key string, f func(redis.Cmdable) (T, error)) (got T, err error) {
	err = s.do(ctx, key, func(c redis.Cmdable) (err error) {
		got, err = f(c)
		return err
	})
	return got, err
}

func (s *Store) hash(key string) *lease.Hash { return lease.New(s.prefix, key, s.holder) }

// A Replica is a process on the same Redis and prefix.
type Replica = lease.Replica

// Announce reports this process to the others. A process that does not report again within lasting
// is dropped.
func (s *Store) Announce(ctx context.Context, report []byte, lasting time.Duration) error {
	return s.do(ctx, lease.RosterKey, func(c redis.Cmdable) error { return lease.Announce(ctx, c, s.prefix, s.holder, report, lasting) })
}

// Replicas lists those that have reported themselves within lasting, by name.
func (s *Store) Replicas(ctx context.Context, lasting time.Duration) ([]Replica, error) {
	return call(ctx, s, lease.RosterKey, func(c redis.Cmdable) ([]Replica, error) { return lease.Replicas(ctx, c, s.prefix, s.holder, lasting) })
}

// Withdraw removes this process from the list, before it ends.
func (s *Store) Withdraw(ctx context.Context) error {
	return s.do(ctx, lease.RosterKey, func(c redis.Cmdable) error { return lease.Withdraw(ctx, c, s.prefix, s.holder) })
}

// Close ends everything the store runs, including fetches in flight, and waits for it. Leases held
// are released.
func (s *Store) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.tasks.Wait()
	s.watch.Close()
	return nil
}

// goTask runs f until the store closes; false when it has.
func (s *Store) goTask(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.tasks.Go(f)
	return true
}

// token names one lease.
func (s *Store) token() string { return fmt.Sprintf("%s/%d", s.holder, s.tokens.Add(1)) }

// claim reserves key for a reader; a key has one.
func (s *Store) claim(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errClosed
	}
	if _, taken := s.keys[key]; taken {
		return fmt.Errorf("cache: %q has a reader already", key)
	}
	s.keys[key] = ""
	return nil
}

func (s *Store) purged(key, kind string, pinned bool) {
	serving := "nothing older than what is fetched now"
	switch {
	case pinned:
		serving = "the restored document, which is pinned"
	case kind == "soft":
		serving = "the stale copy, until a new one is there"
	}
	s.log.Info("purge received", "resource", key, "kind", kind, "serving", serving)
	if s.events.Purged != nil {
		s.events.Purged(key, kind)
	}
}

func (s *Store) fetched(key, outcome string, took time.Duration, err error) {
	if s.events.Fetched != nil {
		s.events.Fetched(key, outcome, took, err)
	}
}

// clientLog receives go-redis's own messages, which would otherwise go to stderr. They are logged
// at debug, since the store logs what matters itself. go-redis has one logger for the process: the
// last store's.
type clientLog struct{ log *slog.Logger }

// Printf implements go-redis's logging interface.
func (c clientLog) Printf(ctx context.Context, format string, v ...any) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
	}
}

var errClosed = errors.New("cache: the store is closed")
