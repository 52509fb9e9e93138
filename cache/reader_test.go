package cache

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
	"vitrine/cmd/testkit"
)

const (
	key   = "vitrine:banners"
	books = "vitrine:lease:{vitrine:banners}"
)

func TestSecondReadComesFromMemoryAndThatOfAnotherReplicaFromRedis(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		a := get(t, r)
		if a.Value != 1 || a.Status.Fwd != FwdMiss || !a.Status.Stored || a.Status.FwdStatus != 200 {
			t.Fatalf("first answer: %+v", a)
		}
		eventually(t, "memory is coherent", func() bool { return get(t, r).Status.Detail == DetailMemory })
		_, other := replica(t, b.url, options(src))
		if a := get(t, other); a.Value != 1 || a.Status.Fwd != "" || a.Status.Stale {
			t.Errorf("second replica: %+v", a)
		}
		if n := src.loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestHashHasTheDocumentedFields(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		_, r := replica(t, b.url, options(newSource()))
		get(t, r)
		h, err := b.client.HGetAll(t.Context(), key).Result()
		must(t, err)
		for _, f := range []string{"body", "etag", "fetched_at", "changed_at", "fresh_until", "upstream_etag", "upstream_last_modified", "age", "source", "set", "seq"} {
			if _, ok := h[f]; !ok {
				t.Errorf("no field %s in %v", f, h)
			}
		}
		if h["etag"] != ETag([]byte(h["body"])) {
			t.Errorf("etag %s is not of the body %s", h["etag"], h["body"])
		}
		beside, err := b.client.HGetAll(t.Context(), books).Result()
		must(t, err)
		if len(beside) != 8 || beside["source"] != "test" || beside["sources"] != "test" || beside["source_seen"] == "" || beside["set"] != h["set"] || beside["seq"] != h["seq"] || beside["until_seq"] != h["seq"] {
			t.Errorf("beside it %v", beside)
		}
		if ttl := b.client.PTTL(t.Context(), key).Val(); ttl < time.Hour+time.Minute/2 || ttl > time.Hour+2*time.Minute {
			t.Errorf("the document expires in %v, want its freshness and the longer stale window", ttl)
		}
		if ttl := b.client.PTTL(t.Context(), books).Val(); ttl < 29*24*time.Hour || ttl > 30*24*time.Hour {
			t.Errorf("the lock record expires in %v", ttl)
		}
	})
}

// removals are the hard purges.
var removals = map[string]func(t *testing.T, b backend) error{
	"DEL":     func(t *testing.T, b backend) error { return b.client.Del(t.Context(), key).Err() },
	"UNLINK":  func(t *testing.T, b backend) error { return b.client.Unlink(t.Context(), key).Err() },
	"EXPIRE":  func(t *testing.T, b backend) error { return b.client.Expire(t.Context(), key, 0).Err() },
	"FLUSHDB": func(t *testing.T, b backend) error { return b.client.FlushDB(t.Context()).Err() },
	"RENAME":  func(t *testing.T, b backend) error { return b.client.Rename(t.Context(), key, "elsewhere").Err() },
}

func TestPurgeDuringFetchRefusesTheLateFill(t *testing.T) {
	purges := maps.Clone(removals)
	purges["HSET"] = func(t *testing.T, b backend) error { return b.client.HSet(t.Context(), key, "fresh_until", 0).Err() }
	purges["SET"] = func(t *testing.T, b backend) error { return b.client.Set(t.Context(), key, "nonsense", 0).Err() }
	backends(t, func(t *testing.T, b backend) {
		for name, purge := range purges {
			for _, cold := range []bool{true, false} {
				t.Run(name+map[bool]string{true: "/cold", false: "/warm"}[cold], func(t *testing.T) {
					must(t, b.client.FlushDB(t.Context()).Err())
					src, r := serving(t, b.url)
					if !cold {
						warm(t, r)
					}
					loads := src.loads.Load()
					release := src.hold()
					var got <-chan Answer[int64]
					if cold { // a visitor waits for the fetch
						got = getLater(t, r)
					} else { // it goes on in the background
						must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
					}
					testkit.Receive(t, src.entered)
					want := src.version.Add(1)
					must(t, purge(t, b))
					release()
					if cold {
						// What a soft purge came during may be had by whoever asked before it.
						if a := testkit.Receive(t, got); a.Value != want && name != "HSET" {
							t.Errorf("got version %d, fetched before the purge; want %d", a.Value, want)
						}
					}
					eventually(t, "the fetch is done again", func() bool { return src.loads.Load()-loads >= 2 || get(t, r).Value == want })
					if n := src.loads.Load() - loads; n != 2 {
						t.Errorf("%d loads, want the one that was refused and one more", n)
					}
					eventually(t, "memory holds the new version", func() bool {
						a := get(t, r)
						return a.Value == want && a.Status.Detail == DetailMemory && !a.Status.Stale
					})
				})
			}
		}
	})
}

// TestAHardPurgeEndsTheLoadUnderWay: it begins again at once, however long the first would take.
func TestAHardPurgeEndsTheLoadUnderWay(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	release := src.hold()
	got := getLater(t, r)
	testkit.Receive(t, src.entered)
	src.version.Store(2)
	must(t, b.client.Del(t.Context(), key).Err())
	if v := testkit.Receive(t, src.entered); v != 2 {
		t.Errorf("the second load has read version %d", v)
	}
	release()
	if a := testkit.Receive(t, got); a.Value != 2 {
		t.Errorf("got %+v", a)
	}
}

var errDown = errors.New("the source is down")

func TestFailureIsServedStaleAndBacksOffAcrossReplicas(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	o := options(src)
	o.TTL, o.StaleWhileRevalidate = time.Millisecond, 0
	o.BackoffFirst, o.BackoffMost = time.Hour, time.Hour
	_, r1 := replica(t, b.url, o)
	_, r2 := replica(t, b.url, o)
	get(t, r1)
	src.fail(errDown)
	var a Answer[int64]
	eventually(t, "stale if error", func() bool { a = get(t, r1); return a.Status.Detail == DetailIfError })
	if a.Value != 1 || !a.Status.Stale {
		t.Errorf("replica 1: %+v", a)
	}
	loads := src.loads.Load()
	for range 100 {
		if a := get(t, r2); a.Value != 1 || a.Status.Detail != DetailIfError {
			t.Fatalf("replica 2: %+v", a)
		}
		get(t, r1)
	}
	if n := src.loads.Load() - loads; n != 0 {
		t.Errorf("%d loads while backing off, want none", n)
	}
	// A purge takes the copy away, and asks the source again at once.
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "an error", func() bool { _, err := r1.Get(t.Context()); return errors.Is(err, errDown) })
	if n := src.loads.Load() - loads; n != 1 {
		t.Errorf("%d loads after the purge, want 1", n)
	}
	var err error
	eventually(t, "an error there", func() bool { _, err = r2.Get(t.Context()); return err != nil })
	var retry *RetryError
	if !errors.As(err, &retry) || retry.After <= 0 || !errors.Is(err, ErrLoad) {
		t.Errorf("replica 2 after the purge: %v", err)
	}
	src.fail(nil)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "served again", func() bool { _, err := r2.Get(t.Context()); return err == nil })
}

// TestWhatIsLeftOfADocumentIsNoStub removes its content while a process fetches that does not hear of
// it: what was fetched before is not stored.
func TestWhatIsLeftOfADocumentIsNoPlaceholder(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		for _, fields := range [][]string{{"body"}, {"etag"}, {"etag", "body"}} {
			fill(t, b.client, acquire(t, b.client, time.Minute), 1)
			must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
			l := acquire(t, b.client, time.Minute)
			must(t, b.client.HDel(t.Context(), key, fields...).Err())
			wrote, err := another().Fill(t.Context(), b.client, l, &lease.Filling{Source: "test", ETag: ETag(body(1)), Body: body(1), TTL: time.Minute})
			if must(t, err); wrote != lease.Lost {
				t.Errorf("without %v: %+v", fields, wrote)
			}
		}
		must(t, b.client.Del(t.Context(), key).Err())
		l := acquire(t, b.client, time.Millisecond)
		poll.Sleep(t.Context(), 5*time.Millisecond)
		wrote, err := another().Fill(t.Context(), b.client, l, &lease.Filling{Source: "test", ETag: ETag(body(1)), Body: body(1), TTL: time.Minute})
		if must(t, err); wrote != lease.Lost {
			t.Errorf("with a lease that has lapsed: %+v", wrote)
		}
	})
}

func TestRenewalKeepsBodyAndChangeTime(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		first := get(t, r)
		eventually(t, "memory", func() bool { return get(t, r).Status.Detail == DetailMemory })
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		eventually(t, "the purge is received, and its fetch is over", func() bool {
			return src.loads.Load() == 2 && !r.Snapshot().Fetching
		})
		var second Answer[int64]
		eventually(t, "a 304 has renewed it", func() bool { second = get(t, r); return !second.Status.Stale })
		if second.Document.ETag != first.Document.ETag || !second.Document.ChangedAt.Equal(first.Document.ChangedAt) {
			t.Errorf("a 304 changed the document: %+v, then %+v", first.Document, second.Document)
		}
	})
}

func TestDocumentOfAnotherSourceIsStale(t *testing.T) {
	b := anyStore(t)
	src, other := newSource(1), newSource(100)
	o := options(src)
	_, r := replica(t, b.url, o)
	get(t, r)
	o = options(other)
	o.Source = "another"
	_, r2 := replica(t, b.url, o)
	if a := get(t, r2); a.Value != 1 || !a.Status.Stale || a.Document.FreshUntil.After(time.Now()) {
		t.Errorf("first answer under another source: %+v, fresh until %v", a, a.Document.FreshUntil)
	}
	eventually(t, "fetched from the other source", func() bool { return get(t, r2).Value == 100 })
}

// TestTheAgeOfAResponseShortensFreshnessAndCounts has a CDN before the CMS, down to one that keeps
// everything for longer than the TTL: that must not have each request fetch again.
func TestTheAgeOfAResponseShortensFreshnessAndCounts(t *testing.T) {
	for _, c := range []struct{ ttl, age, fresh time.Duration }{
		{time.Minute, 0, time.Minute},
		{time.Minute, 20 * time.Second, 40 * time.Second},
		{time.Minute, 58 * time.Second, 6 * time.Second},
		{time.Minute, 365 * 24 * time.Hour, 6 * time.Second},
		{5 * time.Second, time.Hour, time.Second},
	} {
		l := Loaded{Age: c.age}
		if got := l.freshness(c.ttl); got != c.fresh {
			t.Errorf("%v of %v: fresh for %v, want %v", c.age, c.ttl, got, c.fresh)
		}
	}
	backends(t, func(t *testing.T, b backend) {
		loads := 0
		load := LoaderFunc(func(context.Context, string, *Document) (Loaded, error) {
			loads++
			return Loaded{Body: body(1), Age: time.Hour, Status: 200}, nil
		})
		_, r := replica(t, b.url, options(load))
		_, other := replica(t, b.url, options(load))
		for _, r := range []*Reader[int64]{r, other, r} {
			a := get(t, r)
			age := a.Document.AgeAt(time.Now())
			if left := time.Until(a.Document.FreshUntil); age < time.Hour || age > time.Hour+time.Minute || left > 7*time.Second || a.Status.Stale {
				t.Errorf("age %v, fresh for %v: %+v", age, left, a.Status)
			}
		}
		if loads != 1 {
			t.Errorf("%d loads", loads)
		}
	})
}
