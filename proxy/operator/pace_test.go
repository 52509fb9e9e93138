package operator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestWhatComesToTheOperatorsAddressIsPaced has thirty clients send what has no turn, for a second:
// requests that are refused or open to everybody, and bodies.
func TestWhatComesToTheOperatorsAddressIsPaced(t *testing.T) {
	_, url := start(t, Options{Hook: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})})
	const size = 1 << 20
	for _, c := range []struct {
		name, request string
		each          time.Duration // the least that one takes of everybody's time
	}{
		{"health checks", "GET /livez HTTP/1.1\nHost: localhost", paceEach},
		{"another host", "GET / HTTP/1.1\nHost: elsewhere\nConnection: close", paceEach},
		{"bodies", fmt.Sprintf("POST /hooks/content HTTP/1.1\nHost: localhost\nContent-Length: %d\n\n%s", size, strings.Repeat("x", size-4)), paceEach * size / paceBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers atomic.Int64
			var clients sync.WaitGroup
			began := time.Now()
			for range 30 {
				clients.Go(func() {
					for time.Since(began) < time.Second {
						exchange(t, url, c.request)
						answers.Add(1)
					}
				})
			}
			clients.Wait()
			most := 1 + int64((time.Since(began)+paceAhead)/c.each)
			if n := answers.Load(); n == 0 || n > most {
				t.Errorf("%d were answered in %v, want at most %d", n, time.Since(began), most)
			}
		})
	}
}

// TestNobodyWaitsWhileLittleComes sends half of what may come at once.
func TestNobodyWaitsWhileLittleComes(t *testing.T) {
	var l pacedListener
	began := time.Now()
	for range paceAhead / paceEach / 2 {
		l.wait(1)
	}
	if ahead := time.Until(l.next); ahead > 0 {
		t.Errorf("%v ahead after %v", ahead, time.Since(began))
	}
	l.next = time.Now().Add(paceAhead) // whatever holds this test up
	before := l.next
	l.wait(3 * paceBytes)
	if took := l.next.Sub(before); took != 4*paceEach {
		t.Errorf("a read of three times as much as counts once takes %v", took)
	}
}
