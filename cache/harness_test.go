package cache

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Waiting{M: m, AtOnce: 6}.Run()) }

// source is what documents are loaded from: it counts, it can be held up, and its content has
// versions.
type source struct {
	version atomic.Int64
	loads   atomic.Int64
	most    atomic.Int64 // loads under way at once, at the most
	now     atomic.Int64

	mu      sync.Mutex
	err     error
	gate    chan struct{} // nil, or what a load waits for
	entered chan int64    // the version that each load has read, while there is a gate
}

func newSource(version ...int64) *source {
	s := &source{entered: make(chan int64, 100)}
	s.version.Store(append(version, 1)[0])
	return s
}

func (s *source) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

// hold makes loads wait, after they have read their version, until the returned function is called.
func (s *source) hold() (release func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.gate = gate
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		if s.gate == gate {
			s.gate = nil
		}
		s.mu.Unlock()
		close(gate)
	})
}

func (s *source) Load(ctx context.Context, _ string, held *Document) (Loaded, error) {
	s.loads.Add(1)
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	v := s.version.Load()
	s.mu.Lock()
	gate, err := s.gate, s.err
	s.mu.Unlock()
	if gate != nil {
		select {
		case s.entered <- v:
		default:
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return Loaded{}, ctx.Err()
		}
	}
	if err != nil {
		return Loaded{}, err
	}
	etag := fmt.Sprintf("v%d", v)
	if held != nil && held.UpstreamETag == etag {
		return Loaded{NotModified: true, UpstreamETag: etag, Status: 304}, nil
	}
	return Loaded{Body: body(v), UpstreamETag: etag, Status: 200}, nil
}

func body(version int64) []byte { return fmt.Appendf(nil, `{"version":%d}`, version) }

// prepare reads the version back, as a stand-in for whatever is made of a document.
func prepare(d *Document) (int64, error) {
	var v struct{ Version int64 }
	err := json.Unmarshal(d.Body, &v)
	return v.Version, err
}

func options(src Loader) ReaderOptions[int64] {
	return ReaderOptions[int64]{
		TTL: time.Minute, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour, Source: "test",
		Loader: src, Prepare: prepare, FetchTimeout: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMost: 200 * time.Millisecond,
	}
}

// backend is a server that the tests run against: a real one, or the embedded one.
type backend struct {
	url    string
	client *redis.Client
}

// backends runs the test against the embedded store and against a real server, beside others: what
// the scripts do in Redis has to be so in both.
func backends(t *testing.T, test func(t *testing.T, b backend)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { test(t, inProcess(t)) })
	t.Run("redis-server", func(t *testing.T) { test(t, realServer(t)) })
}

// anyStore is a real server, or the embedded store where none is installed, for what is so in both.
func anyStore(t *testing.T) backend {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		return inProcess(t)
	}
	return realServer(t)
}

func inProcess(t *testing.T) backend {
	t.Helper()
	t.Parallel()
	url := embeddedURL(t)
	return backend{url, dial(t, strings.TrimPrefix(url, "redis://"))}
}

func realServer(t *testing.T) backend {
	t.Helper()
	s := startRedis(t)
	return backend{s.URL(), s.Client()}
}

// startRedis starts a real server for a test that runs beside others.
func startRedis(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	t.Parallel()
	return redistest.Start(t, args...)
}

// embeddedURL starts an embedded store that ends with the test, after those who use it.
func embeddedURL(t testing.TB) string {
	t.Helper()
	s, err := embedded.Start("127.0.0.1:0", nil)
	must(t, err)
	t.Cleanup(s.Close)
	return s.URL()
}

func dial(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openStore(t testing.TB, url string) *Store {
	t.Helper()
	return openWith(t, Options{URL: url})
}

func openWith(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return s
}

// replica is a store of its own on the URL, receiving purges, with a reader of "banners".
func replica(t testing.TB, url string, o ReaderOptions[int64]) (*Store, *Reader[int64]) {
	t.Helper()
	return replicaWith(t, Options{URL: url}, o)
}

func replicaWith(t testing.TB, of Options, o ReaderOptions[int64]) (*Store, *Reader[int64]) {
	t.Helper()
	s, r := readerWith(t, of, o)
	eventually(t, "purges are received", s.Listening)
	return s, r
}

// readerWith is a replica that need not receive purges.
func readerWith(t testing.TB, of Options, o ReaderOptions[int64]) (*Store, *Reader[int64]) {
	t.Helper()
	s := openWith(t, of)
	r, err := NewReader(s, "banners", o)
	must(t, err)
	return s, r
}

// serving is a replica on the URL with a source of its own.
func serving(t testing.TB, url string) (*source, *Reader[int64]) {
	t.Helper()
	src := newSource()
	_, r := replica(t, url, options(src))
	return src, r
}

func get(t testing.TB, r *Reader[int64]) Answer[int64] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	a, err := r.Get(ctx)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return a
}

// getLater is get beside the test; without an answer, the channel is closed.
func getLater(t testing.TB, r *Reader[int64]) <-chan Answer[int64] {
	got := make(chan Answer[int64], 1)
	go func() {
		defer close(got)
		a, err := r.Get(t.Context())
		if err != nil {
			t.Errorf("Get: %v", err)
			return
		}
		got <- a
	}()
	return got
}

// loading has a request's load read its version, and then wait until release is called.
func loading(t testing.TB, src *source, r *Reader[int64]) (got <-chan Answer[int64], release func()) {
	t.Helper()
	release = src.hold()
	got = getLater(t, r)
	testkit.Receive(t, src.entered)
	return got, release
}

// holdLooks makes looks wait, but for those that a test makes itself, until the returned function
// is called. They have found e then, or failed.
func holdLooks(t testing.TB, r *Reader[int64], e *entry[int64], err error) (end func()) {
	t.Helper()
	held := &asking[int64]{done: make(chan struct{}), entry: e, err: err}
	eventually(t, "nobody looks", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.asking != nil {
			return false
		}
		held.at = watch.Now()
		r.asking = held
		return true
	})
	end = sync.OnceFunc(func() {
		r.mu.Lock()
		r.asking = nil
		r.mu.Unlock()
		close(held.done)
	})
	t.Cleanup(end)
	return end
}

// earlyLook is a look that has read Redis by now, and returns when the function is called.
func earlyLook(t testing.TB, r *Reader[int64]) (end func() *entry[int64]) {
	t.Helper()
	began, prev, mark := r.begin(), r.memory.Load(), r.watched.Mark()
	rec, err := r.read(prev.etag())
	must(t, err)
	return func() *entry[int64] {
		e, err := r.learn(began, prev, &rec, mark, true)
		must(t, err)
		return e
	}
}

// another is another process on the same Redis.
func another() *lease.Hash { return lease.New("vitrine:", "banners", "another") }

// acquire takes another process's lease.
func acquire(t testing.TB, c *redis.Client, length time.Duration) lease.Lease {
	t.Helper()
	l, err := another().Acquire(t.Context(), c, lease.Request{Token: "another/" + rand.Text(), Length: length, TTL: time.Minute, Source: "test"})
	must(t, err)
	if l.Outcome != lease.Granted {
		t.Fatalf("no lease for another: %+v", l)
	}
	return l
}

// fill stores a version as another process.
func fill(t testing.TB, c *redis.Client, l lease.Lease, version int64) lease.Filled {
	t.Helper()
	wrote, err := another().Fill(t.Context(), c, l, lease.Filling{Source: "test", ETag: ETag(body(version)), Body: body(version), TTL: time.Minute})
	must(t, err)
	if wrote.Outcome != lease.Stored {
		t.Fatalf("not stored: %+v", wrote)
	}
	return wrote
}

// received waits until everything acknowledged by now was received.
func received(t testing.TB, r *Reader[int64]) {
	t.Helper()
	since := watch.Now()
	eventually(t, "all changes are received", func() bool { return r.watched.ReceivedSince(since) })
}

var eventually, must = testkit.Eventually, testkit.Must
