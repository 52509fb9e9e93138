package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Waiting{M: m, AtOnce: 6}.Run()) }

// cms is what documents are loaded from: it counts, it can be held up, and its content has
// versions.
type cms struct {
	version atomic.Int64
	loads   atomic.Int64
	most    atomic.Int64 // loads under way at once, at the most
	now     atomic.Int64

	latency time.Duration // a load takes up to this long, at random

	mu      sync.Mutex
	began   []time.Time
	err     error
	gate    chan struct{} // nil, or what a load waits for
	entered chan int64    // the version that each load has read, while there is a gate
}

func newSource(version ...int64) *cms {
	s := &cms{entered: make(chan int64, 100)}
	s.version.Store(append(version, 1)[0])
	return s
}

func (s *cms) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

// times are when loads began.
func (s *cms) times() []time.Time { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.began) }

// hold makes loads wait, after they have read their version, until the returned function is called.
func (s *cms) hold() (release func()) {
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

func (s *cms) Load(ctx context.Context, _ string, held *Document) (Loaded, error) {
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
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	if s.latency > 0 {
		poll.Sleep(ctx, mathrand.N(s.latency))
	}
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

// patient is how long replicas wait for Redis where they must not take it for unreachable because the
// machine is busy.
const patient = 3 * time.Second

// prompt is a store that waits as long as usual, for a Redis that falls silent.
func prompt(url string) Options { return Options{URL: url, Timeout: leastTimeout} }

func openWith(t testing.TB, o Options) *Store {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, patient)
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
	eventually(t, "purges are received", s.Answering)
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
func serving(t testing.TB, url string) (*cms, *Reader[int64]) {
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

// another is another process on the same Redis.
func another() *lease.Hash { return lease.New("vitrine:", "banners") }

// acquire takes another process's lease.
func acquire(t testing.TB, c *redis.Client, length time.Duration) (token string) {
	t.Helper()
	token = "another/" + rand.Text() + "/1"
	if got := ride(t, c, lease.Acquire(lease.Request{Token: token, Length: length, TTL: time.Minute, Source: "test"})); got != "granted" {
		t.Fatalf("no lease for another: %v", got)
	}
	return token
}

// ride runs a script that rides in front of a poll elsewhere.
func ride(t testing.TB, c *redis.Client, r lease.Ride) any {
	t.Helper()
	p := c.Pipeline()
	got := r.Send(t.Context(), p, another())
	_, err := p.Exec(t.Context())
	must(t, err)
	return got.Val()
}

// fill stores a version as another process.
func fill(t testing.TB, c *redis.Client, token string, version int64) {
	t.Helper()
	wrote, err := another().Fill(t.Context(), c, token, &lease.Filling{
		Source: "test", ETag: ETag(body(version)), Body: body(version), TTL: time.Minute, Stale: time.Hour,
	})
	must(t, err)
	if wrote != lease.Stored {
		t.Fatalf("not stored: %+v", wrote)
	}
}

// received waits until a poll has shown everything acknowledged by now.
func received(t testing.TB, r *Reader[int64]) {
	t.Helper()
	since := poll.Now()
	eventually(t, "a poll is answered", func() bool {
		r.member.Ask()
		return r.view.Load().sent >= since
	})
}

var eventually, must = testkit.Eventually, testkit.Must
