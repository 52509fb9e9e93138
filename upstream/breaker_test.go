package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vitrine/upstream/shape"
)

// scripted is a CMS without a network, so that time can jump.
type scripted struct {
	mu    sync.Mutex
	code  int
	body  string
	hang  bool
	asked int
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked++
	code, body, hang := s.code, s.body, s.hang
	s.mu.Unlock()
	if hang {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

func (s *scripted) answer(code int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.body = code, body
}

func (s *scripted) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

func newScripted(t *testing.T) (*Client, *scripted) {
	t.Helper()
	s := new(scripted)
	return newClient(t, "http://cms", func(o *Options) { o.Transport, o.Retries = s, 0 }), s
}

// failures are n failed fetches that count.
func failures(t *testing.T, c *Client, s *scripted, n int) {
	t.Helper()
	s.answer(503, "")
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
		wantError(t, err, ErrOpen, "fetch banners: GET http://cms: circuit breaker open after repeated failures")
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
		s.answer(200, "[]")
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
		for _, c2 := range []struct {
			code int
			body string
		}{{404, ""}, {400, ""}, {302, ""}, {200, `{"not":"a list"}`}, {200, `"text"`}} {
			failures(t, c, s, 4)
			s.answer(c2.code, c2.body)
			_, err := c.Fetch(t.Context(), shape.Banners, Validators{})
			wantError(t, err, ErrAnswer, "")
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
