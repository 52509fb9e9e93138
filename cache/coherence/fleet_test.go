package coherence

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
)

// keys are the resources, as everywhere in vitrine.
var keys = []string{"catalogue", "rules", "banners"}

const prefix = "vitrine:"

// A node is a replica in this process: a store and a reader for each resource.
type node struct {
	store   *cache.Store
	readers map[string]*cache.Reader[int64]
}

func (n *node) get(ctx context.Context, key string) (int64, cache.Status, error) {
	a, err := n.readers[key].Get(ctx)
	return a.Value, a.Status, err
}

// patient is how long replicas wait for Redis where they must not take it for unreachable because
// the machine is busy.
const patient = 3 * time.Second

// setup is how a node differs from the usual one.
type setup struct {
	logger  *slog.Logger
	timeout time.Duration // of Redis; 0 is the usual one
	bound   time.Duration // for purges; 0 is the usual one
	events  cache.Events
	options func(key string, o *cache.ReaderOptions[int64])
}

// startNode opens a store on the URL with a reader for each origin. It ends with the test.
func startNode(t testing.TB, url string, origins map[string]*origin, s setup) *node {
	t.Helper()
	s.events.Incoherent = func(key string) { t.Errorf("the sampler found memory of %s to differ from Redis", key) }
	store, err := cache.Open(t.Context(), cache.Options{URL: url, Logger: s.logger, Events: s.events, Timeout: s.timeout, PurgeBound: s.bound})
	must(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &node{store: store, readers: map[string]*cache.Reader[int64]{}}
	for key, origin := range origins {
		o := readerOptions(key, origin)
		if s.options != nil {
			s.options(key, &o)
		}
		n.readers[key], err = cache.NewReader(store, key, o)
		must(t, err)
	}
	return n
}

// readerOptions are those of a campaign: one resource lives long, one is renewed all the time, and
// one has no stale windows.
func readerOptions(key string, loader cache.Loader) cache.ReaderOptions[int64] {
	o := cache.ReaderOptions[int64]{
		TTL: time.Minute, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour, FetchTimeout: 5 * time.Second,
		Source: "test", Loader: loader, Prepare: prepare,
	}
	switch key {
	case "rules":
		o.TTL = 50 * time.Millisecond
	case "banners":
		o.TTL, o.StaleWhileRevalidate, o.StaleIfError = 500*time.Millisecond, 0, 0
	}
	return o
}

// long makes documents live so long that only a purge has them fetched.
func long(_ string, o *cache.ReaderOptions[int64]) {
	o.TTL, o.StaleWhileRevalidate, o.StaleIfError = time.Minute, time.Minute, time.Hour
}

func newOrigins(latency time.Duration, keys ...string) map[string]*origin {
	origins := map[string]*origin{}
	for _, key := range keys {
		origins[key] = newOrigin(latency)
	}
	return origins
}

// startFleet starts n nodes and waits until they hear of purges.
func startFleet(t testing.TB, url string, n int, origins map[string]*origin, s setup) []*node {
	t.Helper()
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = startNode(t, url, origins, s)
	}
	for _, n := range nodes {
		eventually(t, "purges are heard", n.store.Listening)
	}
	return nodes
}

func named(nodes []*node) map[string]replica {
	replicas := map[string]replica{}
	for i, n := range nodes {
		replicas[fmt.Sprintf("replica %d", i+1)] = n
	}
	return replicas
}

// hard are the ways to take a document away, and soft is the one to declare it stale.
var (
	hard = []string{"DEL", "UNLINK", "EXPIRE", "FLUSHDB", "RENAME"}
	soft = map[string]bool{"HSET": true}
	all  = append([]string{"HSET"}, hard...)
)

// operator purges as redis-cli would, on a connection that has nothing to do with any replica.
func operator(client redis.Cmdable) func(ctx context.Context, kind, key string) ([]string, error) {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		full := prefix + key
		one := []string{key}
		switch kind {
		case "DEL":
			return one, client.Del(ctx, full).Err()
		case "UNLINK":
			return one, client.Unlink(ctx, full).Err()
		case "EXPIRE":
			return one, client.Expire(ctx, full, 0).Err()
		case "RENAME": // fails where there is nothing to rename: then it does not count
			return one, client.Rename(ctx, full, "elsewhere:"+key).Err()
		case "HSET":
			return one, client.HSet(ctx, full, "fresh_until", 0).Err()
		case "FLUSHDB":
			return keys, client.FlushDB(ctx).Err()
		}
		return nil, fmt.Errorf("no such way to purge: %q", kind)
	}
}
