package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"vitrine/upstream/shape"
)

// scripted is a base URL without HTTP, so that time can jump: it fails with
// what it is told to.
type scripted struct {
	name string

	mu    sync.Mutex
	err   error
	hang  bool
	asked int
	held  Validators    // of the last fetch
	slow  chan struct{} // where not nil, rules come when it is closed
}

func (s *scripted) fetch(ctx context.Context, r shape.Resource, held Validators) (answer, error) {
	s.mu.Lock()
	s.asked++
	s.held = held
	err, hang, slow := s.err, s.hang, s.slow
	s.mu.Unlock()
	if slow != nil && r == shape.Rules {
		<-slow
		err = nil
	}
	if hang {
		<-ctx.Done()
		return answer{attempts: 1}, &FetchError{Resource: r, Op: "GET " + s.name, Kind: ErrTimeout, Err: &lateError{}}
	}
	if err != nil {
		return answer{attempts: 1}, &FetchError{Resource: r, Op: "GET " + s.name, Kind: judge(err).kind, Err: err}
	}
	return answer{status: 200, attempts: 1, body: []byte("[]"), validators: Validators{ETag: `"` + s.name + `"`}}, nil
}

func (s *scripted) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

func (s *scripted) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

func (*scripted) close() {}

func (s *scripted) String() string { return s.name }

// between makes a client of scripted base URLs, named http://0 and so on.
func between(t *testing.T, n int, f Failover) (*Client, []*scripted) {
	t.Helper()
	f, err := f.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &standbys{options: f, timeout: 10 * time.Second, log: slog.New(slog.DiscardHandler)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	sources := make([]*scripted, n)
	for i := range sources {
		sources[i] = &scripted{name: fmt.Sprintf("http://%d", i)}
		mark := ""
		if n > 1 {
			mark = fmt.Sprintf("m%d:", i)
		}
		s.add(sources[i], mark)
	}
	c := &Client{source: s, timeout: 10 * time.Second, lists: newLists(), tracer: noop.NewTracerProvider().Tracer(scope)}
	t.Cleanup(c.Close)
	return c, sources
}

var (
	errDown  = errors.New("connection refused")
	err404   = &StatusError{Code: 404}
	err400   = &StatusError{Code: 400}
	err503   = &StatusError{Code: 503}
	held     = Validators{}
	wantOpen = func(t *testing.T, c *Client, states ...string) {
		t.Helper()
		var got []string
		for _, b := range c.Breakers() {
			got = append(got, b.State)
		}
		if !slices.Equal(got, states) {
			t.Errorf("breakers are %v, want %v", got, states)
		}
	}
)

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }

func fetchFrom(t *testing.T, c *Client, r shape.Resource, want string) {
	t.Helper()
	got, err := c.Fetch(t.Context(), r, held)
	synctest.Wait() // for what is done on the side
	if err != nil || got.Upstream != want {
		t.Fatalf("from %q (%v), want %s", got.Upstream, err, want)
	}
}

func TestBreakerOpensAfterFailuresOfAnyResourceAndClosesByAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 1, Failover{})
		s[0].fail(err503)
		for i := range 5 {
			wantOpen(t, c, "closed")
			_, err := c.Fetch(t.Context(), shape.Resources()[i%3], held)
			wantError(t, err, ErrAnswer, "status 503")
		}
		wantOpen(t, c, "open")
		_, err := c.Fetch(t.Context(), shape.Banners, held)
		wantError(t, err, ErrOpen, "fetch banners: GET http://0: left alone after repeated failures")
		if Code(err) != "open" || !errors.Is(FromCode("open"), ErrOpen) || RetryAfter(err) != 10*time.Second {
			t.Errorf("code %q, again after %v", Code(err), RetryAfter(err))
		}
		if s[0].count() != 5 {
			t.Errorf("asked %d times, want 5", s[0].count())
		}

		pass(10*time.Second + 1)
		wantOpen(t, c, "half-open")
		_, err = c.Fetch(t.Context(), shape.Banners, held)
		wantError(t, err, ErrAnswer, "status 503")
		wantOpen(t, c, "open")

		pass(10*time.Second + 1)
		s[0].fail(nil)
		fetchFrom(t, c, shape.Banners, "http://0")
		wantOpen(t, c, "closed")
		if s[0].count() != 7 {
			t.Errorf("asked %d times, want 7", s[0].count())
		}
	})
}

func TestAnswersThatSayNothingOfAnOutageKeepTheBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 1, Failover{Failures: 2})
		for _, err := range []error{err404, err400, &ContentError{}, &RedirectError{}, &shape.RefusedError{}} {
			s[0].fail(err503)
			_, _ = c.Fetch(t.Context(), shape.Banners, held)
			s[0].fail(err)
			_, _ = c.Fetch(t.Context(), shape.Banners, held)
		}
		wantOpen(t, c, "closed")
	})
}

func TestCancelledFetchesCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{Failures: 1})
		s[0].hang = true
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := c.Fetch(ctx, shape.Banners, held)
			wantCancelled(t, err)
		}
		wantOpen(t, c, "closed", "closed")
		if s[1].count() != 0 {
			t.Error("the standby was asked")
		}
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 1, Failover{Failures: 1})
		s[0].fail(err503)
		_, _ = c.Fetch(t.Context(), shape.Banners, held)
		pass(11 * time.Second)
		s[0].hang = true
		var probes sync.WaitGroup
		for _, r := range shape.Resources() {
			probes.Go(func() { _, _ = c.Fetch(t.Context(), r, held) })
		}
		synctest.Wait()
		if s[0].count() != 2 {
			t.Errorf("%d probes at once, want 1", s[0].count()-1)
		}
		probes.Wait()
	})
}

// claims is what replicas share.
type claims struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (c *claims) claim(_ context.Context, name string, d time.Duration) (func(time.Duration), bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until[name]) {
		return nil, false
	}
	c.until[name] = time.Now().Add(d)
	return func(keep time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.until[name] = time.Now().Add(keep)
	}, true
}

func TestReplicasProbeOneAtATimeAndAFailedProbeCountsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &claims{until: map[string]time.Time{}}
		replicas, sources := make([]*Client, 4), make([]*scripted, 4)
		asked := func() (n int) {
			for _, s := range sources {
				n += s.count()
			}
			return n
		}
		for i := range replicas {
			c, s := between(t, 1, Failover{Failures: 1, Claim: shared.claim})
			replicas[i], sources[i] = c, s[0]
			s[0].fail(errDown)
			_, _ = c.Fetch(t.Context(), shape.Rules, held)
		}
		start := asked()
		for range 60 { // a minute of fetches everywhere, every second
			pass(time.Second)
			for _, c := range replicas {
				_, _ = c.Fetch(t.Context(), shape.Rules, held)
			}
		}
		if n := asked() - start; n < 4 || n > 6 {
			t.Errorf("%d probes by four replicas in a minute, want about one in ten seconds", n)
		}
		for _, s := range sources {
			s.fail(nil)
		}
		pass(11 * time.Second)
		for _, c := range replicas {
			fetchFrom(t, c, shape.Rules, "http://0") // each gives its claim back
		}
	})
}

func TestFailoverIsWhatTheTableSays(t *testing.T) {
	for _, c := range []struct {
		err  error
		next bool
	}{
		{errDown, true},
		{err503, true},
		{err404, true},
		{&StatusError{Code: 401, Outage: true}, true},
		{&ContentError{Page: true}, true},
		{&ContentError{Damaged: true}, true},
		{err400, false},
		{&ContentError{}, false},
		{&shape.RefusedError{Path: "banners"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, s := between(t, 2, Failover{})
			s[0].fail(c.err)
			got, err := client.Fetch(t.Context(), shape.Banners, held)
			if failedOver := err == nil && got.Upstream == "http://1"; failedOver != c.next || s[1].count() > 1 {
				t.Errorf("%v: from %q (%v), want next %t", c.err, got.Upstream, err, c.next)
			}
			if c.next && got.Attempts != 2 {
				t.Errorf("%v: %d attempts, want both counted", c.err, got.Attempts)
			}
		})
	}
}

func TestStandbyIsLeftTimeByAPreferredThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 3, Failover{})
		s[0].hang = true
		s[1].hang = true
		start := time.Now()
		fetchFrom(t, c, shape.Banners, "http://2")
		if took := time.Since(start); took != 7500*time.Millisecond {
			t.Errorf("took %v, want half of the time and half of the rest", took)
		}
		start = time.Now()
		fetchFrom(t, c, shape.Banners, "http://2")
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v: waited for what is done on the side", took)
		}
	})
}

func TestPreferredComesBackOnlyAfterItHasDoneWellForLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{Probes: 3, ReturnAfter: 30 * time.Second})
		s[0].fail(errDown)
		fetchFrom(t, c, shape.Banners, "http://1")
		s[0].fail(nil)
		for range 10 { // well often enough, but not for long enough
			fetchFrom(t, c, shape.Banners, "http://1")
		}
		pass(29 * time.Second)
		s[0].fail(err503)
		fetchFrom(t, c, shape.Banners, "http://1") // begins anew
		s[0].fail(nil)
		pass(31 * time.Second)
		for range 3 {
			fetchFrom(t, c, shape.Banners, "http://1")
		}
		fetchFrom(t, c, shape.Banners, "http://0")
		before := s[1].count()
		fetchFrom(t, c, shape.Banners, "http://0")
		if s[1].count() != before {
			t.Error("the standby is asked while the preferred one is in use")
		}
	})
}

func TestAFetchBegunBeforeAFailoverDoesNotUndoIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{})
		s[0].slow = make(chan struct{})
		var slow sync.WaitGroup
		slow.Go(func() {
			if got, err := c.Fetch(t.Context(), shape.Rules, held); err != nil || got.Upstream != "http://0" {
				t.Errorf("from %q (%v)", got.Upstream, err)
			}
		})
		synctest.Wait()
		s[0].fail(err503)
		fetchFrom(t, c, shape.Banners, "http://1")
		close(s[0].slow)
		slow.Wait()
		if told := c.Breakers(); told[0].InUse || !told[1].InUse {
			t.Errorf("in use is the one that has just failed: %+v", told)
		}
	})
}

func TestPreferredMustBringWhatItFailedToBring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{Probes: 1, ReturnAfter: time.Nanosecond})
		s[0].fail(err404)
		fetchFrom(t, c, shape.Banners, "http://1")
		s[0].fail(nil)
		pass(time.Second)
		for range 5 {
			fetchFrom(t, c, shape.Rules, "http://1")
		}
		fetchFrom(t, c, shape.Banners, "http://1")
		fetchFrom(t, c, shape.Banners, "http://0")
	})
}

func TestValidatorsGoBackToWhereTheyCameFromOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{})
		first, err := c.Fetch(t.Context(), shape.Banners, Validators{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Fetch(t.Context(), shape.Banners, first.Validators); err != nil || s[0].held.ETag != `"http://0"` {
			t.Errorf("sent %+v (%v) to where it came from", s[0].held, err)
		}
		s[0].fail(errDown)
		second, err := c.Fetch(t.Context(), shape.Banners, first.Validators)
		if err != nil || s[1].held != (Validators{}) {
			t.Errorf("sent %+v (%v) to another", s[1].held, err)
		}
		if first.Validators == second.Validators {
			t.Error("validators of two base URLs look alike")
		}
	})
}

func TestAllFailuresAreToldAndTheWholeIsOfOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 3, Failover{})
		s[0].fail(errDown)
		s[1].fail(err503)
		s[2].hang = true
		got, err := c.Fetch(t.Context(), shape.Banners, held)
		wantError(t, err, ErrAnswer, "fetch banners: GET http://0: connection refused; then GET http://1: status 503; then GET http://2: no whole answer within 10s")
		if status, ok := errors.AsType[*StatusError](err); !ok || status.Code != 503 || got.Attempts != 3 {
			t.Errorf("%v: status %v, %d attempts", err, status, got.Attempts)
		}
	})
}

func TestClosingEndsWhatIsDoneOnTheSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := between(t, 2, Failover{})
		s[0].fail(errDown)
		fetchFrom(t, c, shape.Banners, "http://1")
		s[0].mu.Lock()
		s[0].hang = true
		s[0].mu.Unlock()
		fetchFrom(t, c, shape.Banners, "http://1")
		c.Close()
		if _, err := c.Fetch(t.Context(), shape.Banners, held); err != nil {
			t.Error(err)
		}
		if s[0].count() != 3 {
			t.Errorf("the preferred one was asked %d times, want 3", s[0].count())
		}
	})
}
