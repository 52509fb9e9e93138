package coherence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/guard"
)

// The campaigns pass with single rules of the core left out: each has its test here.

const document, lockRecord = Prefix + "banners", Prefix + "lease:{" + Prefix + "banners}"

// one is a replica of banners.
func one(t testing.TB, url string, o *Origin, name string, change func(*cache.ReaderOptions[int64])) *Node {
	t.Helper()
	return Start(t, url, map[string]*Origin{"banners": o}, Setup{Name: name, Timeout: 0, Options: func(key string, ro *cache.ReaderOptions[int64]) {
		Long(key, ro)
		ro.StaleWait, ro.BackoffFirst, ro.BackoffMost = 200*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
		if change != nil {
			change(ro)
		}
	}})
}

// said is what an answer was: its version and detail, or "error".
func said(t testing.TB, n *Node) string {
	t.Helper()
	a, err := n.Readers["banners"].Get(t.Context())
	if err != nil {
		return "error"
	}
	return fmt.Sprint(a.Value, " ", a.Status.Detail)
}

func saying(t testing.TB, n *Node, want string) {
	t.Helper()
	last := ""
	testkit.Eventually(t, want, func() bool { last = said(t, n); return last == want })
}

// busy reads on each replica for so long, and fails the test for an error.
func busy(t testing.TB, lasting time.Duration, nodes ...*Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			all.Go(func() {
				for poll.Sleep(ctx, time.Millisecond) {
					if _, _, err := n.Get(t.Context(), "banners"); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// Rule 1: a process that has never asked counts a set with a history and without a document as a purge.
func TestAPurgeCountsForAReplicaThatStartedCutOff(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	way := redistest.NewRelay(t, s.Addr)
	b := one(t, s.URL(), o, "b", nil)
	saying(t, b, "1 memory")
	way.Cut()
	a := one(t, way.URL(), o, "a", nil)
	saying(t, a, "1 redis-away")
	must(t, s.Client().Del(t.Context(), document).Err())
	o.Down.Store(true)
	way.Heal()
	saying(t, a, "error")
	saying(t, b, "error")
}

// Rule 1: a FLUSHALL that takes long enough to cut the connections is a flush all the same.
func TestALongFlushIsAPurge(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	a := one(t, s.URL(), o, "a", nil)
	saying(t, a, "1 memory")
	o.Down.Store(true)
	_ = s.Client().Eval(t.Context(), `redis.call('flushall') for i = 1, 3e8 do end return 1`, nil).Err() // it may take longer than the client waits
	saying(t, a, "error")
}

// Rule 2: a body on a slow link is waited for, and not fetched anew.
func TestABodyOnASlowLinkIsRead(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	way := redistest.NewRelay(t, s.Addr)
	o.Size = 1 << 20
	saying(t, one(t, s.URL(), o, "b", nil), "1 memory")
	way.Throttle(2 << 20)
	a := one(t, way.URL(), o, "a", nil)
	if got := said(t, a); got != "1 redis" {
		t.Error(got)
	}
	saying(t, a, "1 memory")
	if n := o.Loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// Rule 4: an expired document is no purge, what expires is a document, and what is acquired outlasts
// its lease.
func TestAnExpiryIsNoPurge(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	short := func(r *cache.ReaderOptions[int64]) {
		r.TTL, r.StaleWhileRevalidate, r.StaleIfError = 100*time.Millisecond, 0, 400*time.Millisecond
	}
	b := one(t, s.URL(), o, "b", short)
	saying(t, b, "1 memory")
	a := one(t, s.URL(), o, "a", func(r *cache.ReaderOptions[int64]) { short(r); r.StaleIfError = time.Minute })
	saying(t, a, "1 memory")
	o.Down.Store(true)
	testkit.Eventually(t, "it has expired", func() bool { return s.Client().Exists(t.Context(), document).Val() == 0 }) // nobody reads: an acquire would prolong it
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); poll.Sleep(t.Context(), 10*time.Millisecond) {
		if got := said(t, a); got[:2] != "1 " {
			t.Fatalf("the copy may still be served here: %s", got)
		}
	}
	saying(t, b, "error")
}

// Rules 4 and 6: a document of Redis that expires takes no newer copy with it that Redis refused.
func TestAnExpiryOfAnOlderDocumentIsNoPurge(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	a := one(t, s.URL(), o, "a", func(r *cache.ReaderOptions[int64]) {
		r.TTL, r.StaleWhileRevalidate, r.StaleIfError = 200*time.Millisecond, 0, 800*time.Millisecond
	})
	saying(t, a, "1 memory")
	must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	o.Version.Store(2)
	saying(t, a, "2 redis-refused")
	testkit.Eventually(t, "version 1 has expired", func() bool {
		if got := said(t, a); got != "2 redis-refused" {
			t.Fatal(got)
		}
		return s.Client().Exists(t.Context(), document).Val() == 0
	})
	if got := said(t, a); got[:2] != "2 " {
		t.Error(got)
	}
}

func TestDocumentsThatExpireUnderLoadAreFetchedOncePerTTL(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(5*time.Millisecond)
	var all []*Node
	for i := range 3 {
		all = append(all, one(t, s.URL(), o, fmt.Sprint(i), func(r *cache.ReaderOptions[int64]) {
			r.TTL, r.StaleWhileRevalidate, r.StaleIfError = 100*time.Millisecond, 0, 0
		}))
	}
	busy(t, 1500*time.Millisecond, all...)
	if n := o.Loads.Load(); n > 16 || n < 7 || o.Most.Load() != 1 {
		t.Errorf("%d loads in 15 TTLs, at most %d at once", n, o.Most.Load())
	}
}

// Rule 6: whatever Redis does with a write, there is one fetch per TTL of each replica, and purges of what
// Redis has are received.
func TestARefusedWriteCostsOneFetchPerTTL(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*Origin, *redistest.Server) (url func() string){
		"Redis is full": func(_ *Origin, s *redistest.Server) func() string {
			must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
			return s.URL
		},
		"a relay cuts large values": func(o *Origin, s *redistest.Server) func() string {
			o.Size = 300 << 10
			return func() string { return "redis://" + narrow(t, s.Addr) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := redistest.Start(t), NewOrigin(0)
			url := arrange(o, s)
			var all []*Node
			for i := range 2 {
				all = append(all, one(t, url(), o, fmt.Sprint(i), func(r *cache.ReaderOptions[int64]) { r.TTL = 250 * time.Millisecond }))
			}
			busy(t, 2*time.Second, all...)
			if got := said(t, all[0]); got != "1 redis-refused" {
				t.Error(got)
			}
			if n := o.Loads.Load(); n > 18 || n < 8 {
				t.Errorf("%d loads of 2 replicas in 8 TTLs", n)
			}
			if all[0].Store.Refusing() == "" {
				t.Error("it is not said that Redis refuses")
			}
			must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
			o.Version.Store(2)
			o.Size = 0
			saying(t, all[0], "2 memory")
		})
	}
}

// narrow is a way on which a value above 256 KB closes the connection.
func narrow(t testing.TB, target string) (addr string) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(t))))
	must(t, err)
	testkit.AcceptFrom(t, l, func(client net.Conn) {
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
		if err != nil {
			return
		}
		defer server.Close()
		var back sync.WaitGroup
		defer back.Wait()
		back.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
		for buf := make([]byte, 64<<10); ; {
			n, err := client.Read(buf)
			for _, part := range bytes.Split(buf[:n], []byte("\r\n$"))[1:] {
				length, _, _ := bytes.Cut(part, []byte("\r\n"))
				if size, _ := strconv.Atoi(string(length)); size > 256<<10 {
					_ = client.Close()
					_ = server.Close()
					return
				}
			}
			if _, wrong := server.Write(buf[:n]); err != nil || wrong != nil {
				_ = server.Close()
				return
			}
		}
	})
	return l.Addr().String()
}

// Rule 7: a restore is a document, that DEL and HSET fresh_until 0 end, and that is due at its
// fresh_until; it raises the number as placeholder and fill would, and is written only where it was read.
func TestARestoreIsADocument(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	a, b := one(t, s.URL(), o, "a", nil), one(t, s.URL(), o, "b", nil)
	saying(t, a, "1 memory")
	saying(t, b, "1 memory")
	var first string
	testkit.Eventually(t, "it is kept", func() bool {
		all, err := a.Store.History(t.Context(), "banners")
		if must(t, err); len(all) == 1 {
			first = all[0].Name
		}
		return first != ""
	})
	o.Version.Store(2)
	must(t, s.Client().Del(t.Context(), document).Err())
	saying(t, a, "2 memory")
	for name, end := range map[string]func() error{
		"DEL":                func() error { return s.Client().Del(t.Context(), document).Err() },
		"HSET fresh_until 0": func() error { return s.Client().HSet(t.Context(), document, "fresh_until", 0).Err() },
	} {
		loads := o.Loads.Load()
		seq, _ := s.Client().HGet(t.Context(), document, "seq").Int64()
		_, err := b.Store.Restore(t.Context(), "banners", first, time.Hour, "me", nil)
		must(t, err)
		saying(t, a, "1 restored")
		saying(t, b, "1 restored")
		if now, _ := s.Client().HGet(t.Context(), document, "seq").Int64(); now != seq+1 || o.Loads.Load() != loads {
			t.Errorf("the number was %d, and is %d; %d loads", seq, now, o.Loads.Load()-loads)
		}
		if ttl := s.Client().TTL(t.Context(), document).Val(); ttl < 119*time.Minute {
			t.Errorf("it expires in %v, and may be served for two hours", ttl)
		}
		must(t, end())
		saying(t, a, "2 memory")
		saying(t, b, "2 memory")
		if n := o.Loads.Load() - loads; n != 1 {
			t.Errorf("%d loads after %s", n, name)
		}
	}
	// Where there is no document, the number rises by two: a load under way is void, and the purge stays one.
	must(t, s.Client().Del(t.Context(), document).Err())
	seq, _ := s.Client().HGet(t.Context(), lockRecord, "seq").Int64()
	_, err := b.Store.Restore(t.Context(), "banners", first, 2*time.Second, "me", nil)
	must(t, err)
	if now, _ := s.Client().HGet(t.Context(), document, "seq").Int64(); now != seq+2 {
		t.Errorf("the number was %d, and is %d", seq, now)
	}
	saying(t, a, "1 restored")
	saying(t, a, "2 memory") // once it is due
	if _, err := b.Store.Restore(t.Context(), "banners", first, time.Hour, "me", func(*cache.Document) error { return context.Canceled }); err == nil {
		t.Error("restored what cannot be served")
	}
}

// Rule 8: the guard's baseline goes back into a Redis that came back empty, with its original times.
func TestABaselineGoesBackWithTheHold(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	o.Version.Store(100)
	guarded := func(r *cache.ReaderOptions[int64]) {
		r.TTL, r.GuardHold = 300*time.Millisecond, time.Hour
		r.Guard = func(before, now int64) guard.Findings {
			if now >= before {
				return nil
			}
			return guard.Findings{{List: "banners", Kind: guard.Shrunk, Before: int(before), After: int(now), Items: int(now), Verdict: guard.ForHold}}
		}
	}
	a := one(t, s.URL(), o, "a", guarded)
	saying(t, a, "100 memory")
	fetched := s.Client().HGet(t.Context(), document, "fetched_at").Val()
	s.Kill()
	s.Restart()
	o.Version.Store(1)
	testkit.Eventually(t, "it is held back", func() bool {
		got := said(t, a)
		if got[:4] != "100 " {
			t.Fatal(got)
		}
		return a.Readers["banners"].Snapshot().HeldBack != nil
	})
	saying(t, a, "100 held")
	if now := s.Client().HGet(t.Context(), document, "fetched_at").Val(); now != fetched {
		t.Errorf("it was fetched at %s, and now at %q", fetched, now)
	}
	b := one(t, s.URL(), o, "b", guarded) // which has nothing of its own
	saying(t, b, "100 held")
	accept := func() {
		present, err := b.Store.Present(t.Context(), "banners")
		must(t, err)
		if done, err := b.Store.Accept(t.Context(), "banners", present, ""); err != nil || !done {
			t.Error(done, err)
		}
	}
	accept()
	o.Version.Store(0) // worse than what was accepted
	busy(t, 200*time.Millisecond, a, b)
	saying(t, a, "100 held")
	accept()
	saying(t, a, "0 memory")
}

// Rule 9: the stale windows of a soft purge count from when it was seen.
func TestASoftPurgeEndsTheStaleWindowsEarlier(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	a := one(t, s.URL(), o, "a", func(r *cache.ReaderOptions[int64]) {
		r.StaleWhileRevalidate, r.StaleIfError = 0, 600*time.Millisecond
	})
	saying(t, a, "1 memory")
	o.Down.Store(true)
	purged := time.Now()
	must(t, s.Client().HSet(t.Context(), document, "fresh_until", 0).Err())
	saying(t, a, "1 stale-if-error")
	saying(t, a, "error")
	if took := time.Since(purged); took < 500*time.Millisecond || took > 1500*time.Millisecond {
		t.Errorf("served for %v after the purge", took)
	}
}

// Rule 11: an exchanged server is noticed by a fresh connection, a demoted one by its role.
func TestAnExchangedServerIsNoticed(t *testing.T) {
	t.Parallel()
	first, second, o := redistest.Start(t), redistest.Start(t), NewOrigin(0)
	way := redistest.NewRelay(t, first.Addr)
	a := one(t, way.URL(), o, "a", nil)
	saying(t, a, "1 memory")
	o.Version.Store(2)
	saying(t, one(t, second.URL(), o, "b", nil), "2 memory")
	way.Lead(second.Addr)
	began := time.Now()
	saying(t, a, "2 memory")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

func TestADemotedServerIsNoticed(t *testing.T) {
	t.Parallel()
	s, other, o := redistest.Start(t), redistest.Start(t), NewOrigin(0)
	a := one(t, s.URL(), o, "a", nil)
	saying(t, a, "1 memory")
	must(t, s.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", other.Port).Err())
	saying(t, a, "1 redis-away")
	must(t, s.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	saying(t, a, "1 memory")
}

// Rule 11: a reply that comes twice is no answer to the next poll.
func TestARepeatedReplyIsNoAnswer(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	way := redistest.NewRelay(t, s.Addr)
	a := one(t, way.URL(), o, "a", nil)
	saying(t, a, "1 memory")
	way.Repeat()
	busy(t, 300*time.Millisecond, a)
	o.Version.Store(2)
	must(t, s.Client().Del(t.Context(), document).Err())
	poll.Sleep(t.Context(), Bound)
	if got := said(t, a); got != "1 redis-away" {
		t.Errorf("after a purge: %s", got)
	}
	way.Heal()
	saying(t, a, "2 memory")
}

// Rule 3: a lock record that is gone is no purge, and a hash without body or etag is one.
func TestRemovedFieldsArePurges(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	a, b := one(t, s.URL(), o, "a", nil), one(t, s.URL(), o, "b", nil)
	for what, args := range map[string][]any{
		"body removed": {"HDEL", document, "body"}, "etag removed": {"HDEL", document, "etag"}, "another type": {"SET", document, "x"},
		"renamed": {"RENAME", document, "away"}, "document and lock record": {"DEL", document, lockRecord},
	} {
		saying(t, a, fmt.Sprint(o.Version.Load(), " memory"))
		saying(t, b, fmt.Sprint(o.Version.Load(), " memory"))
		v := o.Version.Add(1)
		must(t, s.Client().Do(t.Context(), args...).Err())
		poll.Sleep(t.Context(), Bound)
		for _, n := range []*Node{a, b} {
			if got, _, err := n.Get(t.Context(), "banners"); err != nil || got != v {
				t.Errorf("%s: version %d, want %d (%v)", what, got, v, err)
			}
		}
	}
	saying(t, a, fmt.Sprint(o.Version.Load(), " memory"))
	loads := o.Loads.Load()
	must(t, s.Client().Set(t.Context(), lockRecord, "x", 0).Err())
	busy(t, 2*Bound, a, b)
	must(t, s.Client().Del(t.Context(), lockRecord).Err())
	busy(t, 2*Bound, a, b)
	if n := o.Loads.Load() - loads; n > 0 {
		t.Errorf("%d loads since the lock record is gone", n)
	}
}

// Rule 5: an older acquire of the same owner that arrives late is refused, and a lease that is extended
// lasts; a dead owner costs two seconds at most.
func TestADeadOwnerCostsTwoSeconds(t *testing.T) {
	t.Parallel()
	s, o := redistest.Start(t), NewOrigin(0)
	way := redistest.NewRelay(t, s.Addr)
	slow := NewOrigin(0)
	slow.Version.Store(100)
	release := slow.Hold()
	defer release()
	owner := one(t, way.URL(), slow, "owner", nil)
	got := make(chan string, 1)
	go func() { got <- said(t, owner) }()
	testkit.Receive(t, slow.Entered)
	a := one(t, s.URL(), o, "a", nil)
	poll.Sleep(t.Context(), 2500*time.Millisecond) // longer than a lease: it is extended
	if till, err := s.Client().HGet(t.Context(), lockRecord, "lease_until").Int64(); till < time.Now().UnixMilli() || o.Loads.Load() > 0 {
		t.Errorf("the lease lasts until %d (%v), after %d loads of another", till, err, o.Loads.Load())
	}
	way.Hang()
	began := time.Now()
	if got := said(t, a); got[:2] != "1 " {
		t.Error(got)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("it was waited for for %v", took)
	}
	way.Heal()
	release()
	testkit.Receive(t, got)
	if v := s.Client().HGet(t.Context(), document, "body").Val(); v != string(Body(1)) {
		t.Errorf("the fill of a lapsed lease was stored: %s", v)
	}
}
