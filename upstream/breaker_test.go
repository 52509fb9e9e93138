package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"vitrine/upstream/shape"
)

// scripted is a CMS without HTTP, so that time can jump.
type scripted struct {
	mu    sync.Mutex
	err   error
	hang  bool
	asked int
}

func (s *scripted) fetch(ctx context.Context, r shape.Resource, _ Validators) (answer, error) {
	s.mu.Lock()
	s.asked++
	err, hang := s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return answer{attempts: 1}, &FetchError{Resource: r, Op: "GET " + s.String(), Kind: ErrTimeout, Err: &lateError{}}
	}
	if err != nil {
		return answer{attempts: 1}, &FetchError{Resource: r, Op: "GET " + s.String(), Kind: judge(err).kind, Err: err}
	}
	return answer{status: 200, attempts: 1, body: []byte("[]")}, nil
}

func (s *scripted) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

func (s *scripted) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

func (*scripted) close() {}

func (*scripted) String() string { return "http://cms" }

func newScripted(t *testing.T) (*Client, *scripted) {
	t.Helper()
	s := new(scripted)
	c := &Client{
		source: s, timeout: 10 * time.Second, lists: newLists(), tracer: noop.NewTracerProvider().Tracer(scope),
		breaker: newBreaker(s.String(), slog.New(slog.DiscardHandler)),
	}
	return c, s
}

// failures are n failed fetches that count.
func failures(t *testing.T, c *Client, s *scripted, n int) {
	t.Helper()
	s.fail(&StatusError{Code: 503})
	for i := range n {
		_, err := c.Fetch(t.Context(), shape.Resources()[i%3], Validators{})
		wantError(t, err, ErrAnswer, "status 503")
	}
}

func wantState(t *testing.T, c *Client, state string) {
	t.Helper()
	if got := c.Breaker(); got.State != state || got.Open() != (state != "closed") {
		t.Errorf("the breaker is %+v, want %s", got, state)
	}
}

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }

func TestBreakerOpensAfterFailuresOfAnyResourceAndClosesByAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newScripted(t)
		failures(t, c, s, 4)
		wantState(t, c, "closed")
		failures(t, c, s, 1)
		wantState(t, c, "open")
		_, err := c.Fetch(t.Context(), shape.Banners, Validators{})
		wantError(t, err, ErrOpen, "fetch banners: GET http://cms: left alone after repeated failures")
		if Code(err) != "open" || !errors.Is(FromCode("open"), ErrOpen) || RetryAfter(err) != 10*time.Second {
			t.Errorf("code %q, again after %v", Code(err), RetryAfter(err))
		}
		if s.count() != 5 {
			t.Errorf("asked %d times, want 5", s.count())
		}

		pass(10*time.Second + 1)
		wantState(t, c, "half-open")
		failures(t, c, s, 1)
		wantState(t, c, "open")

		pass(10*time.Second + 1)
		s.fail(nil)
		mustFetch(t, c, shape.Banners)
		wantState(t, c, "closed")
		if s.count() != 7 {
			t.Errorf("asked %d times, want 7", s.count())
		}
	})
}

func TestAnswersThatSayNothingOfAnOutageKeepTheBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newScripted(t)
		for _, err := range []error{
			&StatusError{Code: 404}, &StatusError{Code: 400}, &ContentError{}, &RedirectError{}, &shape.RefusedError{},
		} {
			failures(t, c, s, 4)
			s.fail(err)
			_, _ = c.Fetch(t.Context(), shape.Banners, Validators{})
		}
		wantState(t, c, "closed")
	})
}

func TestCancelledFetchesCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newScripted(t)
		failures(t, c, s, 4)
		s.hang = true
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := c.Fetch(ctx, shape.Banners, Validators{})
			wantCancelled(t, err)
		}
		wantState(t, c, "closed")
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newScripted(t)
		failures(t, c, s, 5)
		pass(11 * time.Second)
		s.hang = true
		var probes sync.WaitGroup
		for _, r := range shape.Resources() {
			probes.Go(func() { _, _ = c.Fetch(t.Context(), r, Validators{}) })
		}
		synctest.Wait()
		if s.count() != 6 {
			t.Errorf("%d probes at once, want 1", s.count()-5)
		}
		probes.Wait()
	})
}
