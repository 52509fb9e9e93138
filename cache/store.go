package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/upstream/guard"
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
	// MostBody is how long a body of the history may be, in bytes; 0 is 64 MiB. Longer ones are not read, nor
	// documents that are longer than both.
	MostBody int
	// PurgeBound is how soon after a purge no reader returns anything older; 0 is 50 ms.
	PurgeBound time.Duration
	// Timeout is how long Redis can be silent in one call; 0 is 300 ms, or six times the purge
	// bound if that is longer, and at most 5 s.
	Timeout time.Duration
	// Attentive has Redis polled every tenth of a second while nobody reads, instead of every second: a
	// cache in front waits to be notified of purges, or documents are kept fresh.
	Attentive bool
	// StaleWindow is how long past its freshness a restored document may be served.
	StaleWindow time.Duration
	// Logger receives changes of state; nil discards them.
	Logger *slog.Logger
	// Events are the caller's counters; a nil function is not called.
	Events Events
}

// Events are notifications for counting. They are called from the store's own goroutines and must
// not block; key is without the prefix.
type Events struct {
	// Purged: a poll has shown that an operator removed the document ("hard") or declared it stale
	// ("soft"); by says who, if they said so.
	Purged func(key, kind, by string)
	// Fetched: a load ended, with the outcome stored, renewed, soft, lost (refused by a purge),
	// alone (not stored: Redis is unreachable or refuses), held (back) or failed.
	Fetched func(key, outcome string, took time.Duration, err error)
	// Held: a document is held back, once for each hold; or that has ended, and why.
	Held func(key string, h *guard.Hold, end guard.End)
	// Damaged: Redis holds a document that cannot be used; once for each.
	Damaged func(key string)
	// Seen: a poll or a load of this process has shown that something may have happened to the
	// resource.
	Seen func(Sight)
}

const leastTimeout, mostTimeout, leastBody = 300 * time.Millisecond, 5 * time.Second, 64 << 20

// A Store is the Redis that all replicas share, as one process sees it. A process can have several,
// on one Redis or on different ones.
type Store struct {
	o      Options
	redis  *poll.Redis
	owner  string // the name of this store in a lease
	trust  time.Duration
	idle   time.Duration
	tokens atomic.Uint64

	mu   sync.Mutex         // guards keys, and the end of ctx
	keys map[string]refusal // of readers

	ctx    context.Context // of everything this store runs
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Open makes a store. It does not wait for Redis, and does not fail because Redis is unreachable;
// it fails on a URL that cannot be used.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Prefix, o.PurgeBound, o.MostBody = cmp.Or(o.Prefix, "vitrine:"), cmp.Or(o.PurgeBound, 50*time.Millisecond), cmp.Or(o.MostBody, leastBody)
	o.Timeout = cmp.Or(o.Timeout, min(max(leastTimeout, 6*o.PurgeBound), mostTimeout))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	logging.Disable() // go-redis would write to stderr; what matters of it is logged here
	idle := time.Second
	if o.Attentive {
		idle = time.Second / 10 // which costs less than 1 % of a core
	}
	r, err := poll.Open(ctx, poll.Options{URL: o.URL, Bound: o.PurgeBound, Patience: o.Timeout, Idle: idle, MostBody: max(o.MostBody, leastBody), Log: o.Logger})
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, redis: r, owner: ownerName() + "/", trust: r.Trust(), idle: idle, keys: map[string]refusal{}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// stores counts the stores of this process, so that each has its own name.
var stores atomic.Uint64

// ownerName names the process in a lease.
func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%x.%d", host, os.Getpid(), time.Now().UnixMicro(), stores.Add(1))
}

// Addr is the address in the URL, host:port, or several with commas between them.
func (s *Store) Addr() string { return s.redis.Addr() }

// Prefix is the prefix of every key.
func (s *Store) Prefix() string { return s.o.Prefix }

// Up reports whether Redis answered the last polls.
func (s *Store) Up() bool { return s.redis.Up() }

// Answering reports whether polls are answered: purges are received.
func (s *Store) Answering() bool { return s.redis.Answering() }

// Polls are how many polls Redis has not answered, and how many answers waited for a poll.
func (s *Store) Polls() (unanswered, waits int64) { return s.redis.Unanswered(), s.redis.Waits() }

// RoundTrip is the average time for an answer of Redis, 0 if unknown.
func (s *Store) RoundTrip() time.Duration { return s.redis.RoundTrip() }

// Enough is the purge bound that a round trip needs for hits not to wait; 0 if the present one is
// enough.
func (s *Store) Enough(roundTrip time.Duration) time.Duration { return s.redis.Enough(roundTrip) }

// Refusing is why Redis refused the last write of a resource, in its own words, or "".
func (s *Store) Refusing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if r := s.keys[key]; r.reason != "" {
			return r.reason
		}
	}
	return ""
}

// A refusal is the operation that Redis refused last for a resource, and why; zero if it has accepted
// one since.
type refusal struct{ operation, reason string }

// refused notes that Redis answered a write with an error, or not at all. A Redis that refuses is still
// polled, and purges are received.
func (s *Store) refused(key, operation string, err error, bytes int) {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		err = reply
	}
	reason, _, _ := strings.Cut(err.Error(), " script: ") // without the place in our script
	s.mu.Lock()
	before := s.keys[key]
	s.keys[key] = refusal{operation, reason}
	s.mu.Unlock()
	if before.operation == "" {
		s.o.Logger.Warn("redis refuses writes: "+reason, "redis", s.Addr(), "resource", key, "operation", operation, "bytes", bytes) //nolint:sloglint // the reason is what is searched for
	}
}

// accepted notes a successful write: a lease may fit where a document does not.
func (s *Store) accepted(key, operation string) {
	s.mu.Lock()
	before := s.keys[key].operation
	over := before != "" && (operation == "fill" || operation == before)
	if over {
		s.keys[key] = refusal{}
	}
	s.mu.Unlock()
	if over {
		s.o.Logger.Info("redis accepts writes again", "redis", s.Addr(), "resource", key)
	}
}

// Purge purges as redis-cli would: DEL of the key, or, if soft, HSET fresh_until 0 if it exists; by
// says who does, for the logs. Every process on this Redis receives it. It reports whether there was
// anything.
func (s *Store) Purge(ctx context.Context, key string, soft bool, by string) (cached bool, err error) {
	defer s.redis.Ask(s.o.Prefix + key) // this process sees it at once
	return call(ctx, s, key, func(ctx context.Context, c *redis.Client) (bool, error) {
		return s.hash(key).Purge(ctx, c, soft, false, by)
	})
}

// Forget is a hard Purge that removes the history too.
func (s *Store) Forget(ctx context.Context, key, by string) (cached bool, err error) {
	return call(ctx, s, key, func(ctx context.Context, c *redis.Client) (bool, error) {
		return s.hash(key).Purge(ctx, c, false, true, by)
	})
}

// Accept accepts what is held back of key, and acknowledges the content warnings of its document, as
// [Store.Present] has named them: the warnings are those that are to stand with it, "" for as they are.
// It does neither, and reports false, if that is not so any more.
func (s *Store) Accept(ctx context.Context, key string, p Present, warnings string) (done bool, err error) {
	etag := ""
	if p.Document != nil {
		etag = p.Document.ETag
	}
	return call(ctx, s, key, func(ctx context.Context, c *redis.Client) (bool, error) {
		return s.hash(key).Accept(ctx, c, p.HeldBack.Record().Findings, etag, warnings)
	})
}

// do calls f, whose errors say that they are Redis's, with the server of a key.
func (s *Store) do(ctx context.Context, key string, f func(context.Context, *redis.Client) error) error {
	if err := s.redis.Do(ctx, s.o.Prefix+key, true, f); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// call is do for a call with a result.
func call[T any](ctx context.Context, s *Store, key string, f func(context.Context, *redis.Client) (T, error)) (got T, err error) {
	err = s.do(ctx, key, func(ctx context.Context, c *redis.Client) (err error) {
		got, err = f(ctx, c)
		return err
	})
	return got, err
}

func (s *Store) hash(key string) *lease.Hash { return lease.New(s.o.Prefix, key) }

// Close ends everything the store runs, including fetches in flight, and waits for it. Leases held
// are released.
func (s *Store) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.tasks.Wait()
	s.redis.Close()
	return nil
}

// token names one lease.
func (s *Store) token() string { return fmt.Sprint(s.owner, s.tokens.Add(1)) }

// claim reserves key for a reader, since a key has one, and adds its keeper to the tasks, of which all
// others are started by one.
func (s *Store) claim(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errClosed
	}
	if _, taken := s.keys[key]; taken {
		return fmt.Errorf("cache: %q has a reader already", key)
	}
	s.keys[key] = refusal{}
	s.tasks.Add(1)
	return nil
}

// purged notes a purge of the hash with a number: the lock record may say by whom.
func (s *Store) purged(key, kind string, p *poll.Result, number int64) {
	serving := "nothing older than what is fetched now"
	if kind == "soft" {
		serving = "the stale copy, until a new one is there"
	}
	log, by := s.o.Logger.With("resource", key, "kind", kind), ""
	if p.Purged == number && p.PurgedBy != "" {
		by = p.PurgedBy
		log = log.With("by", by)
	}
	log.Info("purge received", "serving", serving)
	if s.o.Events.Purged != nil {
		s.o.Events.Purged(key, kind, by)
	}
}

var errClosed = errors.New("cache: the store is closed")
