package cache

import (
	"regexp"
	"sync"
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
	src.fail(errDown)
	looks := holdLooks(t, r)
	r.o.TTL = time.Millisecond // it is due
	granted := func() bool {   // also while it has the lease: its reply could have been lost
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
	looks()
	if a, err := r.Get(t.Context()); err == nil {
		t.Errorf("what was purged is served: %+v", a.Status)
	}
}

// TestOwnWritesThatAreAnnouncedTooLateWithdrawNothing has both a lease and its fill received only
// after the fill's reply, and Redis die before anybody can look, with the CMS down.
func TestOwnWritesThatAreAnnouncedTooLateWithdrawNothing(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	entered, leave := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(entered); <-leave })
	store, err := Open(t.Context(), Options{URL: server.URL(), PurgeBound: 5 * time.Second, Events: Events{Invalidated: func(key string) {
		if key == "rules" {
			hold() // receives nothing more until then
		}
	}}})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	o := options(src)
	r, err := NewReader(store, "banners", o)
	must(t, err)
	_, err = NewReader(store, "rules", o)
	must(t, err)
	eventually(t, "purges are received", store.Listening)
	warm(t, r)
	looks := holdLooks(t, r)
	r.o.TTL = time.Millisecond // it is due
	must(t, server.Client().Set(t.Context(), "vitrine:rules", "", 0).Err())
	<-entered
	src.version.Store(2)
	mark := r.watched.Mark()
	eventually(t, "it is stored", func() bool {
		f, _ := r.fly(t.Context())
		<-f.done
		return f.status.Stored
	})
	src.fail(errDown)
	server.Kill()
	close(leave)
	eventually(t, "the end of the connection is received", func() bool { return !r.watched.Listening() })
	if !r.watched.Withdrawn(&mark) {
		t.Error("the own writes were not announced: nothing is shown")
	}
	looks()
	if a := get(t, r); a.Value != 2 || a.Status.Detail != DetailRedisAway {
		t.Errorf("got %+v", a)
	}
}
