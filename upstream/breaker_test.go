package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// scripted is a CMS without a network, so that time can jump.
type scripted struct {
	code  int
	body  string
	hang  bool
	after string // Retry-After of failures
	asked atomic.Int64
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	if s.hang {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if s.after != "" {
		header.Set("Retry-After", s.after)
	}
	return &http.Response{
		StatusCode: s.code, Header: header, ContentLength: int64(len(s.body)),
		Body: io.NopCloser(strings.NewReader(s.body)), Request: req,
	}, nil
}

func (s *scripted) answer(code int, body string) { s.code, s.body = code, body }

func newScripted(t *testing.T) (*Client, *scripted) {
	t.Helper()
	s := new(scripted)
	return newClient(t, "http://cms", func(o *options) { o.Transport, o.Retries = s, 0 }), s
}

// failures are n failed fetches that count.
func failures(t *testing.T, c *Client, s *scripted, n int) {
	t.Helper()
	s.answer(503, "")
	for i := range n {
		_, err := c.Fetch(t.Context(), shape.Resources()[i%3], Held{})
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
		_, err := c.Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrOpen, "fetch banners: GET http://cms: circuit breaker open after repeated failures")
		if Code(err) != "open" || !errors.Is(FromCode("open"), ErrOpen) || exchange.RetryAfter(err) != 10*time.Second {
			t.Errorf("code %q, again after %v", Code(err), exchange.RetryAfter(err))
		}
		if s.asked.Load() != 5 {
			t.Errorf("asked %d times, want 5", s.asked.Load())
		}

		pass(10*time.Second + 1)
		wantState(t, c, "half-open")
		failures(t, c, s, 1)
		wantState(t, c, "open")

		pass(10*time.Second + 1)
		s.answer(200, "[]")
		mustFetch(t, c, shape.Banners)
		wantState(t, c, "closed")
		if s.asked.Load() != 7 {
			t.Errorf("asked %d times, want 7", s.asked.Load())
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
			_, err := c.Fetch(t.Context(), shape.Banners, Held{})
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
			_, err := c.Fetch(ctx, shape.Banners, Held{})
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
			probes.Go(func() {
				_, err := c.Fetch(t.Context(), r, Held{})
				if after := exchange.RetryAfter(err); after != 0 {
					t.Errorf("again after %v, though the probe may end at once", after)
				}
			})
		}
		synctest.Wait()
		if s.asked.Load() != 6 {
			t.Errorf("%d probes at once, want 1", s.asked.Load()-5)
		}
		probes.Wait()
	})
}

func TestRetryAfterIsKeptBetweenFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newScripted(t)
		s.answer(429, "")
		s.after = "60"
		_, err := c.Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrAnswer, "status 429")
		for range 5 { // of whichever resource
			pass(10 * time.Second)
			_, err := c.Fetch(t.Context(), shape.Rules, Held{})
			wantError(t, err, ErrOpen, "fetch rules: GET http://cms: paused, as the CMS asked (Retry-After)")
			if after := exchange.RetryAfter(err); after <= 0 || after > 50*time.Second {
				t.Errorf("again after %v", after)
			}
		}
		if s.asked.Load() != 1 {
			t.Errorf("asked %d times within the time, want once", s.asked.Load())
		}
		pass(11 * time.Second)
		s.answer(200, "[]")
		mustFetch(t, c, shape.Rules)
	})
}

// faulty is a transport with a fault that nobody has thought of.
type faulty struct{}

func (faulty) RoundTrip(*http.Request) (*http.Response, error) { panic("a fault\x1b[2J") }

func TestPanicIsOneFailedFetchWithItsStackInTheLog(t *testing.T) {
	var logged bytes.Buffer
	c := newClient(t, "http://cms", func(o *options) { o.Transport, o.Logger = faulty{}, logTo(&logged) })
	for range 3 {
		_, err := c.Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrAnswer, `fetch banners: read banners: internal error: a fault\x1b[2J`)
	}
	if !strings.Contains(logged.String(), "panic during a fetch") || !strings.Contains(logged.String(), "RoundTrip") {
		t.Errorf("logged %s", &logged)
	}
}

func TestWhatACMSSaysHasNoControlCharactersInErrors(t *testing.T) {
	for _, next := range []string{"http://127.0.0.1/%1b%5B2J%0Agvapp", "http://evil%1b[2J\n/x", "http://e\u202evil/x"} {
		cms := upstreamtest.New(t)
		cms.Set(shape.Banners, `{"results":[{"id":1}],"next":`+strconv.Quote(next)+`}`)
		_, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Held{})
		if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", err)
		}
	}
}
