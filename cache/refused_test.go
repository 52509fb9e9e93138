package cache

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

func configure(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	must(t, s.Client().ConfigSet(t.Context(), name, value).Err())
}

// refusals are ways in which a server that answers every PING refuses to write.
var refusals = map[string]func(t *testing.T, s *redistest.Server) (end func()){
	"OOM": func(t *testing.T, s *redistest.Server) func() {
		configure(t, s, "maxmemory", "1")
		return func() { configure(t, s, "maxmemory", "0") }
	},
	"NOREPLICAS": func(t *testing.T, s *redistest.Server) func() {
		configure(t, s, "min-replicas-to-write", "1")
		return func() { configure(t, s, "min-replicas-to-write", "0") }
	},
}

// refuseAfter has writes be refused from just after these fields of the document are written.
func refuseAfter(t *testing.T, c *redis.Client, fields ...any) {
	t.Helper()
	_, err := c.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.HSet(t.Context(), key, fields...)
		tx.ConfigSet(t.Context(), "min-replicas-to-write", "1")
		return nil
	})
	must(t, err)
}

// TestADocumentFromTheFutureInAReadOnlyRedisIsFetchedOnce has the clock of Redis set back when it
// refuses writes: the document there is due, and cannot be replaced.
func TestADocumentFromTheFutureInAReadOnlyRedisIsFetchedOnce(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	src.version.Store(2)
	at := time.Now().Add(time.Hour).UnixMilli()
	refuseAfter(t, server.Client(), "fetched_at", at, "fresh_until", at+60_000)
	eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
	before := src.loads.Load()
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; poll.Sleep(t.Context(), time.Millisecond) {
		if a := get(t, r); a.Value != 2 || a.Status.Stale {
			t.Fatalf("got %+v", a)
		}
	}
	if n := src.loads.Load() - before; n > 0 {
		t.Errorf("loaded %d times within its TTL", n)
	}
	must(t, server.Client().ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	src.version.Store(3)
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "a purge still counts", func() bool { return get(t, r).Value == 3 })
}

// TestAFillWhoseReplyIsLostIsStored has Redis store a document, and not say so.
func TestAFillWhoseReplyIsLostIsStored(t *testing.T) {
	b := anyStore(t)
	_, err := another().Fill(t.Context(), b.client, "", &lease.Filling{}) // its script is there
	must(t, err)
	way := redistest.NewRelay(t, strings.TrimPrefix(b.url, "redis://"))
	src := newSource()
	s, r := replicaWith(t, prompt(way.URL()), options(src))
	left := way.Lose(`{"version":1}`, 1)
	if a := get(t, r); a.Value != 1 || a.Status.Detail == DetailRedisRefused || left() > 0 {
		t.Errorf("%+v, %d replies to come", a.Status, left())
	}
	if warm(t, r); src.loads.Load() != 1 || s.Refusing() != "" {
		t.Errorf("%d loads, refusing: %q", src.loads.Load(), s.Refusing())
	}
}

// padded makes the documents of a source big.
func padded(src *cms, size int) Loader {
	return LoaderFunc(func(ctx context.Context, key string, _ *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, nil)
		loaded.Body = append(loaded.Body, bytes.Repeat([]byte(" "), size)...)
		return loaded, err
	})
}

func refuseAfterAFailure(t *testing.T, server *redistest.Server, src *cms, r *Reader[int64]) {
	t.Helper()
	warm(t, r)
	src.fail(errDown)
	eventually(t, "the failure is recorded", func() bool {
		get(t, r)
		return strings.HasPrefix(server.Client().HGet(t.Context(), books, "lease").Val(), "failed:")
	})
	refusals["NOREPLICAS"](t, server)
}

// TestAFailureThatRedisCannotRecordIsPausedAfter has the CMS fail first, so that Redis holds the
// record of an older failure, whose pause is over.
func TestAFailureThatRedisCannotRecordIsPausedAfter(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL, o.BackoffFirst, o.BackoffMost = 50*time.Millisecond, 200*time.Millisecond, time.Second
	_, r := replica(t, server.URL(), o)
	refuseAfterAFailure(t, server, src, r)
	before, began := src.loads.Load(), time.Now()
	for ; time.Since(began) < time.Second; poll.Sleep(t.Context(), time.Millisecond) {
		get(t, r)
	}
	if n, took := src.loads.Load()-before, time.Since(began); float64(n) > 6*took.Seconds() {
		t.Errorf("%d loads in %v", n, took)
	}
}

// TestAFailureThatRedisRecordsAgainEndsARefusal has Redis be full just when a load fails, and the CMS
// fail for longer than that.
func TestAFailureThatRedisRecordsAgainEndsARefusal(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	s, r := replica(t, server.URL(), options(src))
	warm(t, r)
	src.fail(errDown)
	release := src.hold()
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", 0).Err())
	testkit.Receive(t, src.entered)
	end := refusals["OOM"](t, server)
	release()
	eventually(t, "it is refused", func() bool { get(t, r); return s.Refusing() != "" })
	end()
	eventually(t, "it is not refused any more", func() bool { get(t, r); return s.Refusing() == "" })
}

// TestASuccessThatRedisCannotRecordEndsAFailure has the CMS work again once the record of its failure
// can no longer be removed.
func TestASuccessThatRedisCannotRecordEndsAFailure(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL = 50 * time.Millisecond
	_, r := replica(t, server.URL(), o)
	refuseAfterAFailure(t, server, src, r)
	src.fail(nil)
	eventually(t, "it is loaded", func() bool { return get(t, r).Status.Detail == DetailRedisRefused && r.Snapshot().Failures == 0 })
	for range 3 {
		if received(t, r); r.Snapshot().Failures > 0 {
			t.Fatal("the failure is back")
		}
	}
}

// TestAHoldThatRedisRefusedEndsWithAPurge has the copy purged that a document is held back for, and
// the CMS fail then.
func TestAHoldThatRedisRefusedEndsWithAPurge(t *testing.T) {
	server := startRedis(t)
	src := newSource(2)
	_, r := replica(t, server.URL(), guarded(src, time.Hour))
	get(t, r)
	refusals["OOM"](t, server) // which accepts DEL
	src.version.Store(101)
	until(t, r, "it is held back", func(a Answer[int64]) bool { return a.Value == 2 && r.Snapshot().HeldBack != nil })
	src.fail(errDown)
	until(t, r, "the CMS fails", func(Answer[int64]) bool { return r.Snapshot().Failures > 0 })
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "the purge counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
	if h := r.Snapshot().HeldBack; h != nil {
		t.Errorf("it is still held back: %+v", h)
	}
}

// TestAHoldThatRedisRefusedEndsWithAnothersDocument has another replica store one once Redis accepts
// writes again, and this one write nothing.
func TestAHoldThatRedisRefusedEndsWithAnothersDocument(t *testing.T) {
	for name, version := range map[string]int64{"another version": 4, "the same": 2} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src := newSource(2)
			o := guarded(src, time.Hour)
			o.TTL, o.BackoffFirst, o.BackoffMost = time.Minute, time.Hour, time.Hour
			_, r := replica(t, server.URL(), o)
			warm(t, r)
			src.version.Store(101)
			refuseAfter(t, server.Client(), "fresh_until", 0)
			until(t, r, "it is held back", isHeld)
			for range 3 {
				if received(t, r); r.Snapshot().HeldBack == nil {
					t.Fatal("a poll has ended it")
				}
			}
			configure(t, server, "min-replicas-to-write", "0")
			fill(t, server.Client(), acquire(t, server.Client(), time.Minute), version)
			eventually(t, "the document is cached, and nothing held back", func() bool {
				s := r.Snapshot()
				return s.Document.ETag == ETag(body(version)) && s.HeldBack == nil
			})
		})
	}
}

// TestAnOlderVersionThatIsPurgedTakesTheNewerOneThatWasNotStoredWithIt deletes while memory is
// full, which Redis allows.
func TestAnOlderVersionThatIsPurgedTakesTheNewerOneThatWasNotStoredWithIt(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	o := options(src)
	o.TTL, o.StaleWhileRevalidate = 100*time.Millisecond, 0
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	configure(t, server, "maxmemory", "1")
	src.version.Store(2)
	eventually(t, "the newer version", func() bool { return get(t, r).Value == 2 })
	src.version.Store(3)
	must(t, server.Client().Del(t.Context(), key).Err())
	purged := time.Now()
	eventually(t, "the new version", func() bool {
		asked := time.Since(purged)
		a, err := r.Get(t.Context())
		if err == nil && a.Value < 3 && asked > bound {
			t.Fatalf("%v after the purge: %+v", asked, a)
		}
		return err == nil && a.Value == 3
	})
}
