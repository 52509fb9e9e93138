package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// Options say where the store is and how patient this process is with it.
type Options struct {
	// URL is redis://, rediss:// or unix:// for one server; the same with ?master_name=NAME for
	// Sentinel, whose addresses are then the host and each addr=…; or with ?addr=… alone for a Cluster.
	// A store inside this process ([vitrine/cache/embedded]) is opened apart, and its URL given here.
	// Required.
	URL string
	// Prefix is of every key; "" is "vitrine:".
	Prefix string
	// PurgeBound is how soon after a purge no reader gives out anything older; 0 is 50 ms.
	PurgeBound time.Duration
	// Timeout is how long Redis may be silent in one call; 0 is 300 ms, or six times the purge bound
	// if that is longer, and at most 5 s.
	Timeout time.Duration
	// Logger gets a line for each change of state; nil discards them.
	Logger *slog.Logger
	// Events are for the caller's counters; a nil function is not called.
	Events Events
}

// Events are the things that happen in a store which somebody may want to count. They are called
// from the store's own goroutines, must not block, and key is without the prefix.
type Events struct {
	// Invalidated: somebody, this process included, wrote or removed the key.
	Invalidated func(key string)
	// Purged: a look found that an operator removed the document ("hard") or declared it stale ("soft").
	Purged func(key, kind string)
	// Fetched: a load ended, with the outcome stored, renewed, soft, lost (refused by a purge), alone
	// (not stored: Redis is unreachable or refuses) or failed.
	Fetched func(key, outcome string, took time.Duration, err error)
	// Incoherent: a sample found memory to differ from Redis without an invalidation under way.
	Incoherent func(key string)
}

const (
	defaultPrefix = "vitrine:"
	defaultBound  = 50 * time.Millisecond
	leastTimeout  = 300 * time.Millisecond
	mostTimeout   = 5 * time.Second
)

// A Store is the Redis that all replicas share, as one process sees it. Readers are made on it. A
// process may have several, on one Redis or on different ones.
type Store struct {
	watch  *watch.Watch
	roster *lease.Roster
	prefix string
	holder string // the name of this store in a lease
	bound  time.Duration
	log    *slog.Logger
	events Events
	tokens atomic.Uint64
	// refused is why Redis refused the last write; nil when it did not.
	refused atomic.Pointer[refusal]

	mu     sync.Mutex // guards keys and closed
	keys   map[string]bool
	closed bool

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
		watch: w, roster: lease.NewRoster(o.Prefix), prefix: o.Prefix, holder: holderName(), bound: o.PurgeBound,
		log: o.Logger, events: o.Events, keys: map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
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
func (s *Store) Addr() string { return s.watch.Addr() }

// Prefix is of every key.
func (s *Store) Prefix() string { return s.prefix }

// Up reports whether Redis answered when it was last asked.
func (s *Store) Up() bool { return s.watch.Up() }

// Listening reports whether purges are received.
func (s *Store) Listening() bool { return s.watch.Listening() }

// RoundTrip is how long an answer of Redis takes on average, 0 when not known; Enough is the purge
// bound that this needs, 0 when the present one will do.
func (s *Store) RoundTrip() (took, enough time.Duration) {
	took = s.watch.RoundTrip()
	if need := watch.Enough(took); need > s.bound {
		enough = need
	}
	return took, enough
}

// Refusing is why Redis refused the last write, in its own words; "" when it did not.
func (s *Store) Refusing() string {
	if r := s.refused.Load(); r != nil {
		return r.reason
	}
	return ""
}

// A refusal is an error reply to a write. A Redis that refuses is there all the same: it is read,
// and purges are received.
type refusal struct {
	operation, reason string
}

// refuse notes that Redis answered a write with an error.
func (s *Store) refuse(operation string, err error) {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = reply
	}
	reason, _, _ := strings.Cut(err.Error(), " script: ") // where in our script is of no interest
	if s.refused.Swap(&refusal{operation, reason}) == nil {
		s.log.Warn("redis refuses writes: "+reason, "redis", s.Addr(), "operation", operation)
	}
}

// accepted notes that a write was made: a lease fits where a document may not.
func (s *Store) accepted(operation string) {
	r := s.refused.Load()
	if r != nil && (operation == "fill" || r.operation == operation) && s.refused.CompareAndSwap(r, nil) {
		s.log.Info("redis accepts writes again", "redis", s.Addr())
	}
}

// Ping asks Redis for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "", func(c redis.Cmdable) error { return c.Ping(ctx).Err() })
}

// Purge does what an operator's redis-cli would: DEL of the key, or, when soft, HSET fresh_until 0
// if it is there. Every process on this Redis receives it. It reports whether there was anything.
func (s *Store) Purge(ctx context.Context, key string, soft bool) (held bool, err error) {
	err = s.do(ctx, key, func(c redis.Cmdable) error {
		held, err = s.hash(key, 0).Purge(ctx, c, soft)
		return err
	})
	return held, err
}

// do calls f with the server of a key.
func (s *Store) do(ctx context.Context, key string, f func(redis.Cmdable) error) error {
	server, err := s.watch.Server(ctx, key)
	if err == nil {
		err = server.Do(ctx, true, f)
	}
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

func (s *Store) hash(key string, most time.Duration) *lease.Hash {
	return lease.New(s.prefix, key, s.holder, most)
}

// A Replica is a process on the same Redis and prefix, as it last reported itself.
type Replica struct {
	// Name is the host, the process's number and a number that tells it from an earlier one.
	Name string
	// Self reports whether it is this process.
	Self bool
	// Age is how long ago it reported.
	Age time.Duration
	// Report is what it said.
	Report []byte
}

// rosterKey is where the roster is asked for: in a Cluster any server would do.
const rosterKey = "replicas"

// Announce reports this process to the others. Redis forgets a process that does not report again
// within lasting, and all of them when none does.
func (s *Store) Announce(ctx context.Context, report []byte, lasting time.Duration) error {
	return s.do(ctx, rosterKey, func(c redis.Cmdable) error { return s.roster.Write(ctx, c, s.holder, report, lasting) })
}

// Replicas lists those that have reported themselves within lasting, by name.
func (s *Store) Replicas(ctx context.Context, lasting time.Duration) ([]Replica, error) {
	var reports []lease.Report
	err := s.do(ctx, rosterKey, func(c redis.Cmdable) (err error) {
		reports, err = s.roster.Read(ctx, c, lasting)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]Replica, len(reports))
	for i, r := range reports {
		all[i] = Replica{Name: r.Name, Self: r.Name == s.holder, Age: r.Age, Report: r.Text}
	}
	return all, nil
}

// Withdraw takes this process off the list, for one that is about to end.
func (s *Store) Withdraw(ctx context.Context) error {
	return s.do(ctx, rosterKey, func(c redis.Cmdable) error { return s.roster.Withdraw(ctx, c, s.holder) })
}

// Close ends what the store runs, fetches under way included, and waits for it. Leases held are
// given back.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.tasks.Wait()
	s.watch.Close()
	return nil
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

// token names one lease.
func (s *Store) token() string { return fmt.Sprintf("%s/%d", s.holder, s.tokens.Add(1)) }

// claim takes key for a reader, of which a key has one.
func (s *Store) claim(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.keys[key] {
		return fmt.Errorf("cache: %q has a reader already", key)
	}
	s.keys[key] = true
	return nil
}

func (s *Store) purged(key, kind string) {
	serving := "nothing older than what is fetched now"
	if kind == "soft" {
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

// clientLog takes go-redis's own messages, which would otherwise go to stderr as they are. What of
// them matters the store says in its own words, so that they stand at debug. go-redis has one logger
// for the process: the last store's.
type clientLog struct{ log *slog.Logger }

// Printf implements go-redis's logging interface.
func (c clientLog) Printf(ctx context.Context, format string, v ...any) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
	}
}
