package operator

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// turnRest is how long the next answer waits, as a multiple of the time that the last one took.
const turnRest = 3

// turns has one answer made at a time, for at most a quarter of the time, since visitors come first.
// Equal requests that wait for their turn share an answer that was begun after they came. It is
// written afterwards: a client that does not read holds nobody up.
type turns struct {
	next    http.Handler
	turn    chan struct{} // capacity 1
	waiting atomic.Int64
	made    map[string]*answer // for those that wait; guarded by turn
}

// maxMade bounds the answers kept for those that wait.
const maxMade = 8

func takeTurns(next http.Handler) http.Handler {
	return &turns{next: next, turn: make(chan struct{}, 1), made: map[string]*answer{}}
}

// An answer is made for one request, and perhaps shared. It implements [http.ResponseWriter].
type answer struct {
	began  time.Time
	status int // 0 for the default
	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// ServeHTTP implements [http.Handler].
func (t *turns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if open[r.URL.Path] || strings.HasPrefix(r.URL.Path, "/debug/") {
		t.next.ServeHTTP(w, r)
		return
	}
	came := time.Now()
	t.waiting.Add(1)
	select {
	case t.turn <- struct{}{}:
		t.waiting.Add(-1)
	case <-r.Context().Done():
		t.waiting.Add(-1)
		return
	}
	a := t.take(r, came)
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, _ = w.Write(a.body.Bytes()) // a client that has gone needs no answer
}

// take ends the turn of a request that came then, with an answer to it.
func (t *turns) take(r *http.Request, came time.Time) *answer {
	var key string // none for what is not shared
	if r.Method == http.MethodGet && r.URL.RawQuery == "" && r.Header.Get("If-None-Match") == "" && r.Header.Get("Range") == "" {
		key = strings.Join([]string{r.URL.Path, r.Header.Get("Accept"), r.Header.Get("Accept-Encoding")}, "\x00")
	}
	if a := t.made[key]; a != nil && a.began.After(came) {
		t.end(0)
		return a
	}
	if r.Context().Err() != nil {
		t.end(0)
		return new(answer)
	}
	a := &answer{began: time.Now(), header: http.Header{}}
	defer func() { t.end(time.Since(a.began)) }() // also if it panics, which net/http logs
	t.next.ServeHTTP(a, r.WithContext(context.WithoutCancel(r.Context())))
	if key != "" {
		t.made[key] = a
	}
	return a
}

// end ends a turn that took so long.
func (t *turns) end(took time.Duration) {
	time.AfterFunc(turnRest*took, func() {
		if t.waiting.Load() == 0 || len(t.made) > maxMade {
			clear(t.made)
		}
		<-t.turn
	})
}
