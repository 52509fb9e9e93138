package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

const past = "vitrine:history:{vitrine:banners}"

// described is options whose history says what changed as "1 to 2".
func described(src Loader) ReaderOptions[int64] {
	o := options(src)
	o.Describe = func(before, now *Document) (int, string, bool) {
		var was, is struct{ Version int }
		if before == nil || json.Unmarshal(before.Body, &was) != nil {
			return 1, "", false
		}
		_ = json.Unmarshal(now.Body, &is) // a body of the source
		return 1, fmt.Sprintf("%d to %d", was.Version, is.Version), is.Version == was.Version+1000
	}
	return o
}

// change has the source send a version, which the reader gets.
func change(t *testing.T, b backend, src *cms, r *Reader[int64], versions ...int64) {
	t.Helper()
	for _, version := range versions {
		src.version.Store(version)
		must(t, b.client.Del(t.Context(), key).Err())
		eventually(t, "the version is kept", func() bool {
			a, err := r.Get(t.Context())
			return err == nil && a.Value == version && b.client.HExists(t.Context(), past, lease.VersionOf(body(version))).Val()
		})
	}
}

// names are the versions of the history, newest first.
func names(t *testing.T, s *Store) (all []string) {
	t.Helper()
	kept, err := s.History(t.Context(), "banners")
	must(t, err)
	for _, v := range kept {
		all = append(all, v.Name)
	}
	return all
}

func TestDifferentDocumentsAreKept(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		s, r := replica(t, b.url, described(src))
		for _, version := range []int64{1, 2, 3} {
			change(t, b, src, r, version)
		}
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err()) // renewed: nothing new
		eventually(t, "it is fresh again", func() bool { a := get(t, r); return !a.Status.Stale && a.Document.FreshUntil.After(time.Now()) })
		src.version.Store(1)
		must(t, b.client.Del(t.Context(), key).Err())
		first, second, third := lease.VersionOf(body(1)), lease.VersionOf(body(2)), lease.VersionOf(body(3))
		eventually(t, "the first one is the newest again", func() bool {
			_, err := r.Get(t.Context())
			return err == nil && slices.Equal(names(t, s), []string{first, third, second})
		})
		all, err := s.History(t.Context(), "banners")
		must(t, err)
		if v := all[0]; v.Items != 1 || v.Bytes != len(body(1)) || v.Changes != "3 to 1" || time.Since(v.At).Abs() > time.Minute || !v.Replaced.IsZero() || all[1].Replaced != v.At {
			t.Errorf("%+v", all)
		}
		for version := range int64(3) {
			got, err := s.Version(t.Context(), "banners", lease.VersionOf(body(version+1)))
			if err != nil || !bytes.Equal(got.Body, body(version+1)) {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if _, err := s.Version(t.Context(), "banners", "000000000000"); err == nil {
			t.Error("a version that there is not")
		}
		var fields map[string]any
		must(t, json.Unmarshal([]byte(b.client.HGet(t.Context(), past, first).Val()), &fields))
		if len(fields) != 4 || fields["at"] == nil || fields["items"] == nil || fields["bytes"] == nil || fields["changes"] == nil {
			t.Errorf("%v", fields)
		}
		if held, err := s.Forget(t.Context(), "banners", ""); err != nil || !held || b.client.Exists(t.Context(), past).Val() > 0 {
			t.Errorf("forgotten: %t, %v", held, err)
		}
	})
}

func TestVersionsThatDifferInOrderAloneAreOne(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	s, r := replica(t, b.url, described(src)) // which takes a difference of a thousand for one of order
	change(t, b, src, r, 1, 5, 1005, 2005)
	eventually(t, "the one before is replaced", func() bool {
		return slices.Equal(names(t, s), []string{lease.VersionOf(body(2005)), lease.VersionOf(body(1))})
	})
}

// TestTheHistoryIsBounded calls what a fill does, in number, in bytes and in time.
func TestTheHistoryIsBounded(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		s := openStore(t, b.url)
		remember := func(body []byte) {
			t.Helper()
			must(t, b.client.Del(t.Context(), key).Err())
			wrote, err := another().Fill(t.Context(), b.client, acquire(t, b.client, time.Minute), &lease.Filling{Source: "test", ETag: ETag(body), Body: body, TTL: time.Minute})
			if must(t, err); wrote != lease.Stored {
				t.Fatal(wrote)
			}
			v := Version{Name: lease.VersionOf(body)}
			wanted, all, err := another().Wants(t.Context(), b.client, where(t, b.client), v.Name)
			must(t, err)
			outcome, err := another().Remember(t.Context(), b.client, where(t, b.client), v, all, false, body)
			if must(t, err); outcome != lease.Kept || !wanted {
				t.Fatal(outcome, wanted)
			}
			poll.Sleep(t.Context(), 2*time.Millisecond) // no two at once
		}
		for version := range int64(12) {
			remember(body(version))
		}
		of := func(version int64) string { return lease.VersionOf(body(version)) }
		if got := names(t, s); !slices.Equal(got, []string{of(11), of(10), of(9), of(8), of(0)}) {
			t.Errorf("%v: want the newest four, and the first", got)
		}
		if lasts := b.client.PTTL(t.Context(), past).Val(); lasts < 29*24*time.Hour || lasts > 30*24*time.Hour {
			t.Errorf("it lasts %v", lasts)
		}
		noise := rand.New(rand.NewPCG(1, 2))
		for range 3 {
			large := make([]byte, 4<<20) // which cannot be compressed
			for i := range large {
				large[i] = byte(noise.Uint32())
			}
			remember(large)
		}
		if got := names(t, s); len(got) != 2 {
			t.Errorf("%v", got)
		}
		for i := range 200 {
			must(t, b.client.HSet(t.Context(), past, fmt.Sprint("field ", i), "x").Err())
		}
		remember(body(1))
		if n := b.client.HLen(t.Context(), past).Val(); n != 2 {
			t.Errorf("%d fields of a history that was not written by this program, and one version", n)
		}
	})
}

// where is the generation of the document in Redis.
func where(t *testing.T, c *redis.Client) lease.Generation {
	t.Helper()
	rec, _, err := another().Look(t.Context(), c)
	must(t, err)
	return rec.Generation
}

// TestAPurgeIsNotUndoneByTheHistory has what follows a fill arrive after a purge, and after
// another's fill.
func TestAPurgeIsNotUndoneByTheHistory(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		fill(t, b.client, acquire(t, b.client, time.Minute), 1)
		at := where(t, b.client)
		late := func(when string) {
			outcome, err := another().Remember(t.Context(), b.client, at, Version{Name: lease.VersionOf(body(1))}, nil, false, body(1))
			if must(t, err); outcome != lease.Lost || b.client.Exists(t.Context(), past).Val() > 0 {
				t.Errorf("after %s: %s", when, outcome)
			}
			outcome, _, err = another().Restore(t.Context(), b.client, lease.Restoration{At: at, Version: lease.VersionOf(body(1)), Body: body(1), For: time.Hour})
			if must(t, err); outcome != lease.Lost {
				t.Errorf("a restore after %s: %s", when, outcome)
			}
		}
		must(t, b.client.Del(t.Context(), key).Err())
		late("a purge")
		l := acquire(t, b.client, time.Minute)
		late("a placeholder")
		fill(t, b.client, l, 2)
		late("a fill")
		must(t, b.client.FlushAll(t.Context()).Err())
		late("a flush")
	})
}

// TestWhatIsServedIsKeptAgainOnceTheHistoryIsDeleted has the CMS confirm, or send again, what the
// deleted history had.
func TestWhatIsServedIsKeptAgainOnceTheHistoryIsDeleted(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		_, r := replica(t, b.url, described(src))
		change(t, b, src, r, 1)
		must(t, b.client.Del(t.Context(), past).Err())
		must(t, b.client.HSet(t.Context(), key, "fresh_until", 0).Err())
		first := func() bool { return b.client.HExists(t.Context(), past, lease.VersionOf(body(1))).Val() }
		eventually(t, "it is kept once it is renewed", first)
		must(t, b.client.Del(t.Context(), key, past).Err())
		eventually(t, "it is kept once it is fetched again", func() bool { _, err := r.Get(t.Context()); return err == nil && first() })
	})
}

// TestAHistoryThatIsRefusedHarmsNothingElse has Redis refuse what only the history needs.
func TestAHistoryThatIsRefusedHarmsNothingElse(t *testing.T) {
	server, src := startRedis(t), newSource()
	must(t, server.Client().Do(t.Context(), "acl", "setuser", "default", "-hkeys").Err())
	s, r := replica(t, server.URL(), described(src))
	for version := range int64(3) {
		src.version.Store(version + 1)
		must(t, server.Client().Del(t.Context(), key).Err())
		eventually(t, "it is stored, and served from memory", func() bool {
			a, err := r.Get(t.Context())
			return err == nil && a.Value == version+1 && a.Status.Detail == DetailMemory
		})
	}
	eventually(t, "it was tried", r.unkept.Load)
	if !s.Up() || s.Refusing() != "" {
		t.Errorf("up: %t, refusing: %q", s.Up(), s.Refusing())
	}
}
