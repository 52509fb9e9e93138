package cache

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestAPanicInPrepareIsAnErrorAndHoldsUpNobody(t *testing.T) {
	b := anyStore(t)
	src, sound := serving(t, b.url)
	get(t, sound) // Redis holds it, so that the other replica's first look prepares it
	o := options(src)
	o.Prepare = func(*Document) (int64, error) { panic("a document that nobody thought of") }
	_, r := replica(t, b.url, o)
	if _, err := r.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "that nobody thought of") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Get(t.Context()); err == nil {
		t.Error("the next one is told nothing")
	}
}

func TestAStoreThatClosesGivesItsLeaseBack(t *testing.T) {
	server := startRedis(t)
	for name, end := range map[string]func(context.Context) (Loaded, error){
		"the load ends":     func(ctx context.Context) (Loaded, error) { return Loaded{}, ctx.Err() },
		"the load succeeds": func(context.Context) (Loaded, error) { return Loaded{Body: body(1)}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, server.Client().FlushDB(t.Context()).Err())
			s, err := Open(t.Context(), Options{URL: server.URL()})
			must(t, err)
			entered := make(chan struct{})
			r, err := NewReader(s, "banners", options(LoaderFunc(func(ctx context.Context, _ string, _ *Document) (Loaded, error) {
				close(entered)
				<-ctx.Done()
				return end(ctx)
			})))
			must(t, err)
			got := make(chan error, 1)
			go func() { _, err := r.Get(t.Context()); got <- err }()
			testkit.Receive(t, entered)
			must(t, s.Close())
			if err := testkit.Receive(t, got); err == nil {
				t.Error("an answer that nothing is behind")
			}
			if left := server.Client().HGetAll(t.Context(), books).Val(); left["lease"] != "" || server.Client().HExists(t.Context(), key, "etag").Val() {
				t.Errorf("the others wait for %v", left)
			}
			_, other := replica(t, server.URL(), options(newSource()))
			elapsed := testkit.Stopwatch(t)
			get(t, other)
			if took := elapsed(); took > time.Second {
				t.Errorf("another replica had an answer after %v", took)
			}
		})
	}
}

func TestThePauseDoublesUpToItsMost(t *testing.T) {
	o := options(newSource())
	o.BackoffFirst, o.BackoffMost = time.Minute, 10*time.Hour
	_, r := replica(t, embeddedURL(t), o)
	k := &keeper[int64]{Reader: r}
	for count, want := range map[int]time.Duration{
		1: time.Minute, 2: 2 * time.Minute, 10: 512 * time.Minute, 11: 10 * time.Hour, 29: 10 * time.Hour, 1000: 10 * time.Hour,
		math.MaxInt: 10 * time.Hour,
	} {
		if got := k.backoff(count); got < want-want/4 || got > min(want+want/4, o.BackoffMost) {
			t.Errorf("after %d failures %v, want %v and a quarter to either side", count, got, want)
		}
	}
	k.backoff(math.MinInt) // what somebody wrote into Redis, and one more
}

// untried is the error of a breaker that is open for so long.
type untried time.Duration

func (u untried) Error() string           { return "open" }
func (u untried) TryAfter() time.Duration { return time.Duration(u) }

func TestAnEmptyBodyIsAFailureOfTheLoad(t *testing.T) {
	b := anyStore(t)
	loads := 0
	_, r := replica(t, b.url, options(LoaderFunc(func(context.Context, string, *Document) (Loaded, error) {
		loads++ // one at a time, and the reader waits for it
		return Loaded{}, nil
	})))
	var retry *RetryError
	if _, err := r.Get(t.Context()); !errors.As(err, &retry) || loads != 1 {
		t.Errorf("after %d loads: %v", loads, err)
	}
}

// TestAFillGoesOnAConnectionThatIsOpen has Redis close all connections of calls while a document is
// loaded, as its setting timeout does: a fill is not repeated.
func TestAFillGoesOnAConnectionThatIsOpen(t *testing.T) {
	server, src := startRedis(t), newSource()
	loader := LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		for _, c := range regexp.MustCompile(`(?m)^id=(\d+) .* flags=N`).FindAllStringSubmatch(server.Client().ClientList(ctx).Val(), -1) {
			testkit.Check(t, server.Client().ClientKillByFilter(ctx, "ID", c[1], "SKIPME", "yes").Err())
		}
		return src.Load(ctx, k, held)
	})
	_, r := replica(t, server.URL(), options(loader))
	a := get(t, r)
	for try := 1; try < 3 && !a.Status.Stored; try++ { // another call was under way on a connection, and Redis is away
		must(t, server.Client().Del(t.Context(), key).Err())
		received(t, r)
		a = get(t, r)
	}
	if !a.Status.Stored {
		t.Errorf("not stored: %+v", a.Status)
	}
}

type visitorKey struct{}

// visit is a context whose value is taken away when its call is over.
type visit struct {
	context.Context
	over chan struct{}
	lent int
}

func (v *visit) Value(key any) any {
	if key != (visitorKey{}) {
		return v.Context.Value(key)
	}
	select {
	case <-v.over:
		return "somebody else"
	default:
		return "first"
	}
}

func (v *visit) Lend() context.Context {
	v.lent++
	return context.WithValue(v.Context, visitorKey{}, v.Value(visitorKey{})) // which ends with the visit
}

func TestALoadSeesTheValuesOfWhoeverCausedItAndNotItsEnd(t *testing.T) {
	src := newSource()
	release := src.hold()
	seen := make(chan any, 1)
	o := options(LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, held) // waits for its release
		seen <- ctx.Value(visitorKey{})
		return loaded, err
	}))
	_, r := replica(t, embeddedURL(t), o)

	ctx, hangUp := context.WithCancel(t.Context())
	starter := &visit{Context: ctx, over: make(chan struct{})}
	gone := make(chan error, 1)
	go func() {
		_, err := r.Get(starter)
		close(starter.over)
		gone <- err
	}()
	eventually(t, "the load has begun", func() bool { return src.loads.Load() == 1 })
	hangUp()
	if err := testkit.Receive(t, gone); err == nil {
		t.Error("a visitor who hung up got an answer")
	}
	release()
	eventually(t, "the load ends", func() bool { return r.Snapshot().Document != nil })
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
	if v := testkit.Receive(t, seen); v != "first" {
		t.Errorf("the load saw %v", v)
	}
	if starter.lent != 1 {
		t.Errorf("lent %d times", starter.lent)
	}
}
