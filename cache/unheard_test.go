package cache

import (
	"regexp"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
)

// TestAnOwnWriteThatNobodyHeardExcusesNoPurge has the listening connection end before an own lease
// is announced on it. A purge is received on the next one, and Redis dies before anybody can look: the
// purge is not taken for that lease.
func TestAnOwnWriteThatNobodyHeardExcusesNoPurge(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	_, r := replica(t, server.URL(), options(src))
	warm(t, r)
	r.o.TTL = time.Millisecond // it is due
	src.fail(errDown)
	lost := &asking[int64]{done: make(chan struct{}), err: errDown}
	r.mu.Lock()
	r.asking = lost // a look that does not come back
	r.mu.Unlock()
	granted := func() bool { // also while it has the lease: its reply could have been lost
		l, _, err := r.acquire(t.Context())
		must(t, err)
		return l.Outcome == lease.Granted
	}
	heard := func() {
		since := watch.Now()
		eventually(t, "all changes are received", func() bool { return r.watched.Listening() && r.watched.HeardSince(since) })
	}
	eventually(t, "it is due", granted)
	heard()
	clients, err := server.Client().ClientList(t.Context()).Result()
	must(t, err)
	for _, client := range regexp.MustCompile(`(?m)^id=(\d+) .* flags=[A-Za-z]*t`).FindAllStringSubmatch(clients, -1) {
		must(t, server.Client().ClientKillByFilter(t.Context(), "ID", client[1]).Err())
	}
	if !granted() {
		t.Fatal("the lease is not given")
	}
	heard()
	must(t, server.Client().Del(t.Context(), key).Err())
	heard()
	server.Kill()
	r.mu.Lock()
	r.asking = nil
	r.mu.Unlock()
	close(lost.done)
	if a, err := r.Get(t.Context()); err == nil {
		t.Errorf("what was purged is served: %+v", a.Status)
	}
}
