package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sighted collects what a process sees, in words.
type sighted struct {
	mu  sync.Mutex // guards all
	all []string
}

func (s *sighted) see(v Sight) {
	text := fmt.Sprintf("%d", v.Seq)
	if v.Document != nil {
		text += " " + v.Document.ETag
	}
	for word, holds := range map[string]bool{" purged": v.Purged, " alone": v.Alone} {
		if holds {
			text += word
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
}

// has waits until what was seen since the last call includes each of these.
func (s *sighted) has(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	eventually(t, "the process sees "+strings.Join(want, ", "), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = slices.Clone(s.all)
		return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(got, w) })
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// TestEveryProcessSeesWhatHappensToADocument: fills, purges with the number that they have,
// failures and the recovery, whichever process they are of; and one that starts sees a purge that
// nobody did.
func TestEveryProcessSeesWhatHappensToADocument(t *testing.T) {
	b := anyStore(t)
	src, client := newSource(), b.client
	process := func() (*Reader[int64], *sighted) {
		s := &sighted{}
		_, r := readerWith(t, Options{URL: b.url, Events: Events{Seen: s.see}}, options(src))
		return r, s
	}
	first, a := process()
	second, z := process()
	get(t, first)
	get(t, second)
	v1, v2 := " "+ETag(body(1)), " "+ETag(body(2))
	a.has(t, "2"+v1) // 1 is the placeholder of its lease
	z.has(t, "2"+v1)

	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	a.has(t, "3 purged")
	z.has(t, "3 purged")
	src.version.Store(2)
	get(t, second)
	a.has(t, "4"+v2)
	z.has(t, "4"+v2)

	src.fail(errDown)
	must(t, client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	for _, r := range []*Reader[int64]{first, second} {
		until(t, r, "each sees that the second fails, too", func(Answer[int64]) bool {
			s := r.Snapshot()
			return s.Failures >= 2 && s.Err != nil && s.Set != "" && s.Seq == 4
		})
	}
	src.fail(nil)
	until(t, first, "it recovers", func(Answer[int64]) bool { return first.Snapshot().Failures == 0 })
	a.has(t, "5"+v2)

	must(t, first.store.Close())
	must(t, second.store.Close())
	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	_, c := process()
	c.has(t, "6 purged")
}

func TestADocumentLoadedAloneIsSeenAsSuch(t *testing.T) {
	src, s := newSource(), &sighted{}
	_, r := readerWith(t, Options{URL: "redis://127.0.0.1:1", Timeout: 100 * time.Millisecond, Events: Events{Seen: s.see}}, options(src))
	get(t, r)
	s.has(t, "0 "+ETag(body(1))+" alone")
}

func TestASnapshotTellsWhatIsHeldAndFetchesNothing(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	if s := r.Snapshot(); s.Document != nil {
		t.Errorf("before the first read: %+v", s)
	}
	if src.loads.Load() != 0 {
		t.Error("looking made a load")
	}
	a := get(t, r)
	var s Snapshot[int64]
	eventually(t, "the copy is fresh and coherent", func() bool {
		s = r.Snapshot()
		return s.Fresh && s.Coherent && s.Failures == 0 && !s.Fetching
	})
	if s.Document.ETag != a.Document.ETag || s.ServableUntil.Before(time.Now().Add(time.Hour)) {
		t.Errorf("after the first read: %+v", s)
	}
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
	src.fail(errDown)
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	eventually(t, "the copy is stale and its loader fails", func() bool {
		s = r.Snapshot()
		return !s.Fresh && s.Failures > 0 && s.Document != nil
	})
	loads := src.loads.Load()
	must(t, b.client.Del(t.Context(), "vitrine:banners").Err())
	eventually(t, "what was purged is missing", func() bool { return r.Snapshot().Document == nil })
	if n := src.loads.Load(); n != loads {
		t.Errorf("%d loads after a purge that nobody followed with a read, want none", n-loads)
	}
}

func TestSuspicionsStandWithTheDocument(t *testing.T) {
	b := anyStore(t)
	src := LoaderFunc(func(_ context.Context, _ string, held *Document) (Loaded, error) {
		if held != nil {
			return Loaded{NotModified: true, Suspicions: held.Suspicions + "+"}, nil
		}
		return Loaded{Body: body(1), Suspicions: "odd"}, nil
	})
	o := options(src)
	o.TTL = 10 * time.Millisecond
	_, r := replica(t, b.url, o)
	if a := get(t, r); a.Document.Suspicions != "odd" {
		t.Errorf("%q", a.Document.Suspicions)
	}
	until(t, r, "it is renewed", func(a Answer[int64]) bool { return a.Document.Suspicions == "odd+" })
	_, other := replica(t, b.url, o)
	if a := get(t, other); !strings.HasPrefix(a.Document.Suspicions, "odd+") {
		t.Errorf("%q", a.Document.Suspicions)
	}
}
