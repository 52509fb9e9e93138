package cache

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"vitrine/cache/lease"
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
		for _, f := range []string{"body", "etag", "fetched_at", "changed_at", "fresh_until", "upstream_etag", "upstream_last_modified", "source", "set", "seq"} {
			if _, ok := h[f]; !ok {
				t.Errorf("no field %s in %v", f, h)
			}
		}
		if h["etag"] != ETag([]byte(h["body"])) {
			t.Errorf("etag %s is not of the body %s", h["etag"], h["body"])
		}
		beside, err := b.client.HGetAll(t.Context(), books).Result()
		must(t, err)
		if len(beside) != 2 || beside["set"] != h["set"] || beside["seq"] != h["seq"] {
			t.Errorf("beside it %v", beside)
		}
		for _, name := range []string{key, books} {
			if ttl := b.client.PTTL(t.Context(), name).Val(); ttl != -1 {
				t.Errorf("%s expires in %v", name, ttl)
			}
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

func TestPurgeIsSeenByEveryReplica(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r1 := serving(t, b.url)
		_, r2 := replica(t, b.url, options(src))
		for name, purge := range removals {
			t.Run(name, func(t *testing.T) {
				eventually(t, "both hold it", func() bool {
					return get(t, r1).Status.Detail == DetailMemory && get(t, r2).Status.Detail == DetailMemory
				})
				loads := src.loads.Load()
				purgeReaches(t, src, []*Reader[int64]{r1, r2}, 50*time.Millisecond, func() error { return purge(t, b) })
				if n := src.loads.Load() - loads; n != 1 {
					t.Errorf("%d loads for one purge, want 1", n)
				}
			})
		}
	})
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

func TestSoftPurgeServesStaleAndRefreshesWithoutARead(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		warm(t, r)
		src.version.Add(1)
		release := src.hold()
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		testkit.Receive(t, src.entered) // nobody has read
		a := get(t, r)
		if a.Value != 1 || a.Status.Fwd != "" || !a.Status.Stale || a.Status.Detail != DetailRevalidate {
			t.Errorf("while it is refreshed: %+v", a)
		}
		release()
		eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
		if n := src.loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
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

func TestDamagedBodyIsAMissAndReplaced(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		get(t, r)
		must(t, b.client.HSet(t.Context(), key, "body", `{"version":666}`, "etag", `"made-up"`).Err())
		eventually(t, "fetched anew", func() bool { return get(t, r).Value == 1 && src.loads.Load() == 2 })
		h, err := b.client.HGetAll(t.Context(), key).Result()
		must(t, err)
		if h["etag"] != ETag([]byte(h["body"])) {
			t.Errorf("still damaged: %v", h)
		}
	})
}

// TestADocumentWhoseBodyWasRemovedIsPurged removes the content from the hash and leaves the rest:
// while a copy of it is in memory, and where nobody has one.
func TestADocumentWhoseBodyWasRemovedIsPurged(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src, r := serving(t, b.url)
		warm(t, r)
		src.version.Store(2)
		must(t, b.client.HDel(t.Context(), key, "body").Err())
		received(t, r)
		if a := get(t, r); a.Value != 2 {
			t.Errorf("after the purge: %+v", a)
		}
		must(t, b.client.HDel(t.Context(), key, "body").Err())
		_, fresh := replica(t, b.url, options(src))
		if a := get(t, fresh); a.Value != 2 {
			t.Errorf("a replica without a copy: %+v", a)
		}
		if n := src.loads.Load(); n != 3 {
			t.Errorf("%d loads, want 3", n)
		}
	})
}

// TestWhatIsLeftOfADocumentIsNoStub removes its content while a process fetches that does not hear of
// it: what was fetched before is not stored.
func TestWhatIsLeftOfADocumentIsNoStub(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		for _, fields := range [][]string{{"body"}, {"etag"}, {"etag", "body"}} {
			fill(t, b.client, acquire(t, b.client, time.Minute), 1)
			must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
			l := acquire(t, b.client, time.Minute)
			must(t, b.client.HDel(t.Context(), key, fields...).Err())
			wrote, err := another().Fill(t.Context(), b.client, l, lease.Filling{Source: "test", ETag: ETag(body(1)), Body: body(1), TTL: time.Minute})
			if must(t, err); wrote.Outcome != lease.Lost {
				t.Errorf("without %v: %+v", fields, wrote)
			}
		}
	})
}

func TestABodyThatWasReplacedIsNotFetchedForItsDamageAgain(t *testing.T) {
	b := anyStore(t)
	src, r1 := serving(t, b.url)
	get(t, r1)
	must(t, b.client.HSet(t.Context(), key, "body", "tampered with").Err())
	var r2 *Reader[int64]         // whose memory has no copy of it
	var late func() *entry[int64] // a look that has read it, and is slow to return
	loader := LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		late = earlyLook(t, r2)
		return src.Load(ctx, k, held)
	})
	_, r2 = replica(t, b.url, options(loader))
	if a := get(t, r2); a.Value != 1 || src.loads.Load() != 2 {
		t.Fatalf("after %d loads: %+v", src.loads.Load(), a)
	}
	late()
	// The content, and with it the etag, is what it was. A flight for nothing, such as one that
	// another replica was faster than, finds it fresh.
	f, _ := r2.fly(t.Context())
	testkit.Receive(t, f.done)
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want 2: what is whole was taken for damaged", n)
	}
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
	must(t, b.client.HIncrBy(t.Context(), key, "fetched_at", -lease.SourceGrace.Milliseconds()-1000).Err())
	o = options(other)
	o.Source = "another"
	_, r2 := replica(t, b.url, o)
	if a := get(t, r2); a.Value != 1 || !a.Status.Stale || a.Document.FreshUntil.After(time.Now()) {
		t.Errorf("first answer under another source: %+v, fresh until %v", a, a.Document.FreshUntil)
	}
	eventually(t, "fetched from the other source", func() bool { return get(t, r2).Value == 100 })
}
