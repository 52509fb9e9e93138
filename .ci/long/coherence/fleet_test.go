package coherence

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cmd/testkit"
)

// Keys are the resources, as everywhere in vitrine.
var Keys = []string{"catalogue", "rules", "banners"}

// Prefix is that of all keys.
const Prefix = "vitrine:"

// A Replica answers with the version that it holds of a resource.
type Replica interface {
	Get(ctx context.Context, key string) (version int64, status cache.Status, err error)
}

// A Node is a replica in this process: a store and a reader for each resource.
type Node struct {
	Store   *cache.Store
	Readers map[string]*cache.Reader[int64]
}

// Get asks it.
func (n *Node) Get(ctx context.Context, key string) (int64, cache.Status, error) {
	a, err := n.Readers[key].Get(ctx)
	return a.Value, a.Status, err
}

// Patient is how long replicas wait for Redis where they must not take it for unreachable because
// the machine is busy.
const Patient = 3 * time.Second

// Setup is how a node differs from the usual one.
type Setup struct {
	Logger  *slog.Logger
	Timeout time.Duration // of Redis; 0 is the usual one
	Bound   time.Duration // for purges; 0 is the usual one
	Events  cache.Events
	Options func(key string, o *cache.ReaderOptions[int64])
}

// Start opens a store on the URL with a reader for each origin. It ends with the test.
func Start(t testing.TB, url string, origins map[string]*Origin, s Setup) *Node {
	t.Helper()
	store, err := cache.Open(t.Context(), cache.Options{URL: url, Logger: s.Logger, Events: s.Events, Timeout: s.Timeout, PurgeBound: s.Bound, StaleWindow: time.Hour})
	must(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &Node{Store: store, Readers: map[string]*cache.Reader[int64]{}}
	for key, origin := range origins {
		o := ReaderOptions(key, origin.Loader())
		if s.Options != nil {
			s.Options(key, &o)
		}
		n.Readers[key], err = cache.NewReader(store, key, o)
		must(t, err)
	}
	return n
}

// ReaderOptions are those of a campaign: one resource lives long, one is renewed all the time, and
// one has no stale windows.
func ReaderOptions(key string, loader cache.Loader) cache.ReaderOptions[int64] {
	o := cache.ReaderOptions[int64]{
		TTL: time.Minute, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour, FetchTimeout: 5 * time.Second,
		Source: "test", Loader: loader, Prepare: Prepare,
	}
	switch key {
	case "rules":
		o.TTL = 50 * time.Millisecond
	case "banners":
		o.TTL, o.StaleWhileRevalidate, o.StaleIfError = 500*time.Millisecond, 0, 0
	}
	return o
}

// Long makes documents live so long that only a purge has them fetched.
func Long(_ string, o *cache.ReaderOptions[int64]) {
	o.TTL, o.StaleWhileRevalidate, o.StaleIfError = time.Minute, time.Minute, time.Hour
}

// Failing is for a CMS that fails: no copy gets too old to be served, and the next attempt is soon.
func Failing(_ string, o *cache.ReaderOptions[int64]) {
	o.StaleIfError, o.StaleWait = time.Hour, 100*time.Millisecond
	o.BackoffFirst, o.BackoffMost = 20*time.Millisecond, 100*time.Millisecond
}

// StartFleet starts n nodes and waits until they receive purges.
func StartFleet(t testing.TB, url string, n int, origins map[string]*Origin, s Setup) []*Node {
	t.Helper()
	nodes := make([]*Node, n)
	for i := range nodes {
		nodes[i] = Start(t, url, origins, s)
	}
	for _, n := range nodes {
		testkit.Eventually(t, "purges are received", n.Store.Answering)
	}
	return nodes
}

// Named gives replicas their names.
func Named(nodes []*Node) map[string]Replica {
	replicas := map[string]Replica{}
	for i, n := range nodes {
		replicas[fmt.Sprintf("replica %d", i+1)] = n
	}
	return replicas
}

// Hard are the ways to take a document away, and Soft is the one to declare it stale.
var (
	Hard = []string{"DEL", "UNLINK", "EXPIRE", "FLUSHDB", "RENAME"}
	Soft = map[string]bool{"HSET": true}
	All  = append([]string{"HSET"}, Hard...)
)

// A Purger does to the key what the kind says, and returns the keys for which that counts as
// purged. An error means that it does not count.
type Purger = func(ctx context.Context, kind, key string) ([]string, error)

// Operator purges as redis-cli would, on a connection that has nothing to do with any replica.
func Operator(client redis.Cmdable) Purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		full := Prefix + key
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
			return Keys, client.FlushDB(ctx).Err()
		}
		return nil, fmt.Errorf("no such way to purge: %q", kind)
	}
}
