package cache

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// garbage is what somebody may write into a field: numbers that one reader takes for one and
// another for none, times that cannot be, and no text at all.
var garbage = []string{
	"", " ", "0", "1", "-1", "-2", "-5", "abc", "1795269336009.5", "1e13", " 1795269336009", "1795269336009 ", "0x10", "+5", "nan", "inf",
	"99999999999999", "999999999999999", "99999999999999999999", "-99999999999999", "true", "failed:", "failed:x:y", "failed:1:error", "\x00\xff",
}

var fields = []string{"body", "etag", "fetched_at", "changed_at", "fresh_until", "upstream_etag", "upstream_last_modified", "age", "source", "set", "seq", "restored_by", "suspicions", "accepted", "until", "until_seq", "purged_by", "lease_mark", "held_since", "held_seq", "held_findings", "held_clock", "released", "wanted_until", "lease", "lease_until", "lease_length", "lease_seq"}

// FuzzFieldsWrittenByAnybody writes a value to a field and counts what that costs: with nobody
// asking, and with a visitor. It ends in a document that is served and stored, whatever was
// written.
func FuzzFieldsWrittenByAnybody(f *testing.F) {
	for i := range fields { // every eighth pair of a field and a value: fuzzing finds the others
		for j, value := range garbage {
			if (i+j)%8 == 0 {
				f.Add(uint8(i), value)
			}
		}
	}
	server := redistest.Start(f)
	client := server.Client()
	src := newSource()
	_, r := replica(f, server.URL(), options(src))
	f.Fuzz(func(t *testing.T, field uint8, value string) {
		name, of := fields[int(field)%len(fields)], key
		if !slices.Contains(fields[:12], name) {
			of = books
		}
		if name == "lease" && value != "" {
			return // that somebody has a lease is no garbage: he is waited for
		}
		must(t, client.Del(t.Context(), key).Err())
		warm(t, r)
		loads, before := src.loads.Load(), commands(t, server)
		must(t, client.HSet(t.Context(), of, name, value).Err())
		eventually(t, "an answer", func() bool { a, err := r.Get(t.Context()); return err == nil && a.Value == 1 })
		poll.Sleep(t.Context(), 20*time.Millisecond)
		if n := commands(t, server) - before; n > 600 {
			t.Errorf("%s = %q: %d commands", name, value, n)
		}
		if n := src.loads.Load() - loads; n > 2 {
			t.Errorf("%s = %q: %d loads", name, value, n)
		}
	})
}

// TestAFreshUntilFarInTheFutureIsOne writes numbers whose nanoseconds are beyond 64 bits. The
// document is fresh, for no longer than any is.
func TestAFreshUntilFarInTheFutureIsOne(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		for _, until := range []int64{999999999999999, 99999999999999, 30000000000000, 20000000000000} {
			_, r := replica(t, b.url, options(newSource()))
			warm(t, r)
			must(t, b.client.HSet(t.Context(), key, "fresh_until", until).Err())
			received(t, r)
			a := get(t, r)
			if left := time.Until(a.Document.FreshUntil); a.Status.Stale || left < 0 || left > 70*time.Second {
				t.Errorf("until %d: fresh for %v, %+v", until, left, a.Status)
			}
		}
	})
}

// TestClockOfRedisSetBackMakesDocumentsDue has a document and a lease that were written when
// Redis's clock was ten minutes ahead.
func TestClockOfRedisSetBackMakesDocumentsDue(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		warm(t, r)
		src.version.Store(2)
		ahead := time.Now().Add(10 * time.Minute).UnixMilli()
		must(t, b.client.HSet(t.Context(), key, "fetched_at", ahead, "fresh_until", ahead+60_000).Err())
		eventually(t, "it is fetched again", func() bool { a := get(t, r); return a.Value == 2 && !a.Status.Stale })
		release := src.hold()
		must(t, b.client.Del(t.Context(), key).Err())
		received(t, r)
		later := getLater(t, r)
		testkit.Receive(t, src.entered) // a placeholder is there
		ahead = time.Now().Add(10 * time.Minute).UnixMilli()
		must(t, b.client.HSet(t.Context(), books, "lease", "failed:3:error", "lease_until", ahead, "lease_length", 1000).Err())
		release()
		if a := testkit.Receive(t, later); a.Value != 2 {
			t.Errorf("a pause from another time: %+v", a)
		}
	})
}

// TestIdleReplicasCostLittle has a replica that nobody asks anything. It polls once a second.
func TestIdleReplicasCostLittle(t *testing.T) {
	server := startRedis(t)
	s := openStore(t, server.URL())
	for _, name := range []string{"catalogue", "rules", "banners"} {
		_, err := NewReader(s, name, options(newSource()))
		must(t, err)
	}
	eventually(t, "it listens", s.Answering)
	poll.Sleep(t.Context(), time.Second) // it polls for a moment after the start
	before, began := commands(t, server), time.Now()
	poll.Sleep(t.Context(), 2*time.Second)
	if perSecond := float64(commands(t, server)-before) / time.Since(began).Seconds(); perSecond > 20 {
		t.Errorf("%.1f commands a second", perSecond)
	}
}

// TestWhatIsNoPurgeLosesNoCopy does what an operator may do to keys, scripts and connections, while the
// CMS fails.
func TestWhatIsNoPurgeLosesNoCopy(t *testing.T) {
	server := startRedis(t)
	src, one := serving(t, server.URL())
	_, other := replica(t, server.URL(), options(src))
	warm(t, one)
	warm(t, other)
	src.fail(errDown)
	names := strings.NewReplacer("KEY", key, "BOOKS", books, "PAST", past)
	for _, commands := range []string{
		"SCRIPT FLUSH", "CLIENT KILL TYPE normal SKIPME yes", "CLIENT KILL TYPE pubsub", "EXPIRE KEY 100", "PERSIST KEY", "TOUCH KEY",
		"HSET KEY mine 1", "HDEL KEY source", "HDEL KEY suspicions",
		"HSET KEY fresh_until 0", "HSET KEY fresh_until -1", "HSET KEY fresh_until 99999999999999", "HSET KEY fetched_at 99999999999999",
		"HSET KEY restored_by x", "HDEL KEY restored_by", "HSET BOOKS until 1 until_seq 1", "HSET BOOKS accepted 1", "HSET BOOKS purged_by x",
		"COPY KEY elsewhere REPLACE", "COPY KEY vitrine:rules REPLACE", "RENAME KEY elsewhere ; RENAME elsewhere KEY",
		"DEL PAST", "SET PAST x", "DEL BOOKS", "SET BOOKS x", "DEL BOOKS ; LPUSH BOOKS x", "EXPIRE BOOKS 0", "HDEL BOOKS lease lease_until", "HDEL BOOKS set",
		"HDEL BOOKS seq", "DEL BOOKS ; CLIENT KILL TYPE pubsub", "DEL BOOKS PAST ; CLIENT KILL TYPE normal SKIPME yes",
		"HSET BOOKS lease x lease_until 99999999999999 lease_length 1", "HSET BOOKS wanted_until 99999999999999",
	} {
		_, err := server.Client().TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
			for command := range strings.SplitSeq(names.Replace(commands), ";") {
				var words []any
				for word := range strings.FieldsSeq(command) {
					words = append(words, word)
				}
				tx.Do(t.Context(), words...)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", commands, err)
		}
		for _, r := range []*Reader[int64]{one, other} {
			for range 3 {
				if a, err := r.Get(t.Context()); err != nil || a.Value != 1 {
					t.Fatalf("%s: %+v, %v", commands, a, err)
				}
				received(t, r)
			}
		}
	}
}

// TestADamagedBodyIsFetchedOnce has the CMS go on with the content whose bytes were damaged in Redis:
// what replaces them has the same etag.
func TestADamagedBodyIsFetchedOnce(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		_, first := serving(t, b.url)
		warm(t, first)
		must(t, b.client.HSet(t.Context(), key, "body", "damaged").Err())
		src, r := serving(t, b.url)
		warm(t, r)
		for began := time.Now(); time.Since(began) < 300*time.Millisecond; poll.Sleep(t.Context(), time.Millisecond) {
			if a := get(t, r); a.Value != 1 || a.Status.Stale {
				t.Fatalf("got %+v", a)
			}
		}
		if n := src.loads.Load(); n != 1 {
			t.Errorf("loaded %d times within a TTL, want 1", n)
		}
	})
}

// TestAnAcquireThatIsNotGrantedIsNoStorm has Redis refuse the lease of a document that is due here, as
// when its clock was set back: it is asked again now and then.
func TestAnAcquireThatIsNotGrantedIsNoStorm(t *testing.T) {
	server := startRedis(t)
	store, r := replica(t, server.URL(), options(newSource()))
	warm(t, r)
	now := time.Now().UnixMilli()
	must(t, server.Client().HSet(t.Context(), lease.Lock("vitrine:", "banners"), // a later one of its own
		"lease", store.owner+"999999", "lease_until", now+50_000, "lease_length", 60_000, "lease_seq", r.view.Load().saw.Seq).Err())
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", now-1).Err())
	asked := store.tokens.Load()
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; poll.Sleep(t.Context(), time.Millisecond) {
		get(t, r)
	}
	if n := store.tokens.Load() - asked; n == 0 || n > 30 {
		t.Errorf("asked for the lease %d times in half a second", n)
	}
}

// TestAChangeAtAnImpossibleTimeHasADate has a new process read times that no header or JSON can have.
func TestAChangeAtAnImpossibleTimeHasADate(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		_, r := serving(t, b.url)
		warm(t, r)
		for _, at := range []int64{-1, -99999999999999, -999999999999999, 253402300800000, 999999999999999} {
			must(t, b.client.HSet(t.Context(), key, "changed_at", at).Err())
			_, other := serving(t, b.url)
			eventually(t, "it reads the document", func() bool { return get(t, other).Status.Detail == DetailMemory })
			if got := get(t, other).Document.ChangedAt; got.Before(time.Unix(0, 0)) || got.After(time.Now().Add(time.Minute)) {
				t.Errorf("%d: %v", at, got)
			}
		}
	})
}

// TestABodyThatIsTooLongIsNotRead nor is memory taken for it, however right its etag is.
func TestABodyThatIsTooLongIsNotRead(t *testing.T) {
	s := startRedis(t)
	src := newSource()
	_, first := replica(t, s.URL(), options(src))
	warm(t, first)
	long := append(body(7), bytes.Repeat([]byte(" "), leastBody)...)
	must(t, s.Client().HSet(t.Context(), key, "body", long, "etag", ETag(long)).Err())
	_, r := replica(t, s.URL(), options(src))
	if a := get(t, r); a.Value != 1 {
		t.Errorf("version %d is served", a.Value)
	}
}
