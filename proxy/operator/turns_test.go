package operator

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheOperatorsAddressTakesAShareOfTheTime has twenty clients request an answer that takes 10 ms
// to make, for ten seconds.
func TestTheOperatorsAddressTakesAShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		h := takeTurns(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(10 * time.Millisecond)
			made.Add(1)
			w.Header().Set("X", "y")
			w.WriteHeader(http.StatusTeapot)
		}))
		began := time.Now()
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() {
				for time.Since(began) < 10*time.Second {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
					if w.Code != http.StatusTeapot || w.Header().Get("X") != "y" {
						t.Errorf("%d %v", w.Code, w.Header())
					}
				}
			})
		}
		clients.Wait()
		worked := time.Duration(made.Load()) * 10 * time.Millisecond
		if most := time.Since(began)/4 + time.Second + 10*time.Millisecond; worked < 2*time.Second || worked > most {
			t.Errorf("answers were made for %v of %v, want at most %v", worked, time.Since(began), most)
		}
	})
}

// TestAnAnswerThatIsNeverMadeEndsWithAnError has one request keep the turn, and others wait for it.
func TestAnAnswerThatIsNeverMadeEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var made atomic.Int64
		h := takeTurns(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			made.Add(1)
			<-end
		}))
		ctx, leave := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for _, ctx := range []context.Context{t.Context(), t.Context(), ctx} {
			clients.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
				if w.Code != http.StatusServiceUnavailable || ctx.Err() == nil && w.Body.Len() == 0 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
			synctest.Wait()
		}
		leave()
		clients.Wait()
		close(end)
		synctest.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("%d answers were made, want 1: nobody waits for another", n)
		}
	})
}

// readable is a connection that always has something to read.
type readable struct{ net.Conn }

func (readable) Read(p []byte) (int, error) { return len(p), nil }
func (readable) Close() error               { return nil }

// TestReadsArePaced reads from many connections for ten seconds, a few bytes each time or many.
func TestReadsArePaced(t *testing.T) {
	for size, each := range map[int]int{1: 1, 3 * readBytes: 4} {
		synctest.Test(t, func(t *testing.T) {
			cs := newConnections()
			began, reads := time.Now(), atomic.Int64{}
			var readers sync.WaitGroup
			for range 20 {
				c := &pacedConn{Conn: readable{}, connections: cs}
				c.open, c.end = context.WithCancel(t.Context())
				defer c.Close()
				readers.Go(func() {
					for p := make([]byte, size); time.Since(began) < 10*time.Second; {
						_, _ = c.Read(p)
						if n := reads.Add(1); n == int64(readBurst/each) && time.Since(began) > 0 {
							t.Errorf("the first %d reads of %d bytes waited", n, size)
						}
					}
				})
			}
			readers.Wait()
			if n, most := reads.Load(), (readBurst+int64(readRate)*10)/int64(each)+20; n < most*9/10 || n > most {
				t.Errorf("%d reads of %d bytes, want at most %d", n, size, most)
			}
		})
	}
}
