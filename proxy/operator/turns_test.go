package operator

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestTheOperatorsAddressTakesAShareOfTheTime has twenty clients ask for an answer that takes 10 ms
// to make, for a second: each for the same, or each time for another. No answer is from before it
// was asked for.
func TestTheOperatorsAddressTakesAShareOfTheTime(t *testing.T) {
	for _, c := range []struct {
		name, target string
	}{
		{"equal", "/metrics"},
		{"distinct", "/metrics?x=%d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made, asked atomic.Int64
			h := takeTurns(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				now := asked.Load()
				<-time.After(10 * time.Millisecond)
				made.Add(1)
				w.Header().Set("X", "y")
				w.WriteHeader(http.StatusTeapot)
				_, _ = fmt.Fprint(w, now)
			}))
			began := time.Now()
			var clients sync.WaitGroup
			for range 20 {
				clients.Go(func() {
					for time.Since(began) < time.Second {
						target, n := c.target, asked.Add(1)
						if c.name == "distinct" {
							target = fmt.Sprintf(target, n)
						}
						w := httptest.NewRecorder()
						h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
						at, err := strconv.ParseInt(w.Body.String(), 10, 64)
						if w.Code != http.StatusTeapot || err != nil || at < n || w.Header().Get("X") != "y" {
							t.Errorf("request %d: %d, as of %d, %v", n, w.Code, at, err)
						}
					}
				})
			}
			clients.Wait()
			most := 1 + int64(time.Since(began)/(40*time.Millisecond)) // a turn of 10 ms and a rest of 30 ms
			if n := made.Load(); n == 0 || n > most || c.name == "equal" && asked.Load() < 5*n {
				t.Errorf("%d answers were made for %d requests, want at most %d", n, asked.Load(), most)
			}
		})
	}
}

// TestNothingIsMadeForAClientThatHasGone has clients leave while they wait for their turn, for
// answers that can be shared or not.
func TestNothingIsMadeForAClientThatHasGone(t *testing.T) {
	for _, target := range []string{"/metrics?x", "/metrics"} {
		t.Run(target, func(t *testing.T) {
			var made atomic.Int64
			h, finish := busy(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { made.Add(1) }))
			var others sync.WaitGroup
			ctx, leave := context.WithCancel(t.Context())
			for i := range 20 {
				others.Go(func() {
					r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
					r.Header.Set("Accept", strconv.Itoa(i/2))
					h.ServeHTTP(httptest.NewRecorder(), r)
				})
			}
			leave()
			left := make(chan struct{})
			go func() { others.Wait(); close(left) }()
			select {
			case <-left:
			case <-time.After(testkit.Patience):
				t.Error("clients that have gone wait for their turn")
			}
			finish()
			others.Wait()
			for range 50 { // who has gone may get a turn that is free
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil))
			}
			if n := made.Load(); n != 0 {
				t.Errorf("%d answers were made for nobody", n)
			}
		})
	}
}

// TestAnswersKeptForThoseWhoWaitAreBounded has somebody wait all the time while others ask for one
// page in many ways.
func TestAnswersKeptForThoseWhoWaitAreBounded(t *testing.T) {
	h := &turns{next: http.NotFoundHandler(), turn: make(chan struct{}, 1), made: map[string]*answer{}}
	h.waiting.Add(1)
	for i := range 10 * maxMade {
		r := httptest.NewRequest(http.MethodGet, "/page", nil)
		r.Header.Set("Accept", strconv.Itoa(i))
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	h.turn <- struct{}{}
	if n := len(h.made); n == 0 || n > maxMade+1 {
		t.Errorf("%d answers are kept", n)
	}
}

// TestAConditionIsNotShared has a client with a validator and one without wait for the same page.
func TestAConditionIsNotShared(t *testing.T) {
	h, finish := busy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
		}
	}))
	var clients sync.WaitGroup
	for _, tag := range []string{`"x"`, ""} {
		clients.Go(func() {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/page", nil)
			want := http.StatusOK
			if tag != "" {
				r.Header.Set("If-None-Match", tag)
				want = http.StatusNotModified
			}
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("If-None-Match %s: %d", tag, w.Code)
			}
		})
	}
	<-time.After(20 * time.Millisecond) // so that they wait together
	finish()
	clients.Wait()
}

// busy is a handler with turns, of which one is taken until finish is called.
func busy(t *testing.T, next http.Handler) (h http.Handler, finish func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	h = takeTurns(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-end
			return
		}
		next.ServeHTTP(w, r)
	}))
	var slow sync.WaitGroup
	slow.Go(func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/slow", nil)) })
	<-began
	return h, func() {
		close(end)
		slow.Wait()
	}
}
