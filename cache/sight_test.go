package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
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
	for word, holds := range map[string]bool{" purged": v.Purged, " alone": v.Alone, fmt.Sprintf(" failures:%d", v.Failures): v.Failures > 0} {
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
	a.has(t, "2"+v1) // 1 is the stub of its lease
	z.has(t, "2"+v1)

	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	a.has(t, "3 purged")
	z.has(t, "3 purged")
	src.version.Store(2)
	get(t, second)
	a.has(t, "4"+v2)
	z.has(t, "4"+v2)

	sees := func(text string) {
		eventually(t, text+" is seen", func() bool {
			first.refresh(t.Context())
			a.mu.Lock()
			defer a.mu.Unlock()
			return slices.Contains(a.all, text)
		})
	}
	src.fail(errDown)
	must(t, client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	a.has(t)
	sees("4" + v2 + " failures:2")
	src.fail(nil)
	a.has(t)
	sees("5" + v2)

	must(t, first.store.Close())
	must(t, second.store.Close())
	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	third, c := process()
	_, err := third.ask(0)
	must(t, err)
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
		return s.Fresh && s.Coherent && !s.Failing && !s.Fetching
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
		return !s.Fresh && s.Failing && s.Document != nil
	})
	loads := src.loads.Load()
	must(t, b.client.Del(t.Context(), "vitrine:banners").Err())
	eventually(t, "what was purged is missing", func() bool { return r.Snapshot().Document == nil })
	if n := src.loads.Load(); n != loads {
		t.Errorf("%d loads after a purge that nobody followed with a read, want none", n-loads)
	}
}

// A look at Redis that was slow to return does not take back what was stored since it was made.
func TestALookDuringAFetchDoesNotReplaceWhatIsFilled(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	var r *Reader[int64]
	var late func() *entry[int64]
	loader := LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		granted := watch.Now()
		eventually(t, "the lease is announced", func() bool { return r.watched.ReceivedSince(granted) })
		late = earlyLook(t, r)
		return src.Load(ctx, k, held)
	})
	o, path := keeping(t, loader)
	_, r = replica(t, b.url, o)
	get(t, r)
	eventually(t, "the copy is kept", func() bool { return exists(path) })
	late()
	if !exists(path) {
		t.Error("the late look removes the last good copy")
	}
	if s := r.Snapshot(); !s.Fresh {
		t.Errorf("after the late look: %+v", s)
	}
}

// The same of a look from before the lease, where nothing is announced.
func TestALookFromBeforeAFetchDoesNotReplaceWhatIsFilled(t *testing.T) {
	server, src := startRedis(t), newSource()
	must(t, server.Client().Do(t.Context(), "acl", "setuser", "default", "-client").Err())
	o, path := keeping(t, src)
	r := alone(t, server.URL(), o)
	eventually(t, "redis is reached", func() bool { return r.watched.Up() })
	holdLooks(t, r, nil, errDown)
	late := earlyLook(t, r)
	f, _ := r.fly(t.Context())
	testkit.Receive(t, f.done)
	eventually(t, "the copy is kept", func() bool { return exists(path) })
	late()
	if s := r.Snapshot(); !s.Fresh || !exists(path) {
		t.Errorf("after the late look: %+v; kept: %t", s, exists(path))
	}
}

// Nor does what such a look has found count as the last content.
func TestALateLookDoesNotForgetWhenTheContentChanged(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	holdLooks(t, r, nil, errDown)
	late := earlyLook(t, r)
	src.version.Store(2)
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", 0).Err())
	f, _ := r.fly(t.Context())
	testkit.Receive(t, f.done)
	if f.err != nil || f.entry == nil || f.entry.value != 2 {
		t.Fatalf("%+v", f)
	}
	late()
	if at := r.knownChange(f.entry.doc.ETag); at != f.entry.doc.ChangedAt.UnixMilli() {
		t.Errorf("the content held is known to have changed at %d", at)
	}
}

func TestAHoldIsToldOnceAndItsEnd(t *testing.T) {
	b := anyStore(t)
	src := newSource(2)
	told := make(chan *HeldBack, 100)
	var failures atomic.Int64
	_, r := readerWith(t, Options{URL: b.url, Events: Events{
		Held: func(_ string, h *HeldBack) { told <- h }, Seen: func(s Sight) { failures.Add(int64(s.Failures)) },
	}}, guarded(src, time.Hour))
	get(t, r)
	src.version.Store(101)
	until(t, r, "it is held back", isHeld)
	again := func() {
		loads := src.loads.Load()
		until(t, r, "the CMS is asked again", func(Answer[int64]) bool { return src.loads.Load() > loads })
	}
	again()
	src.version.Store(4)
	until(t, r, "the next is taken", func(a Answer[int64]) bool { return a.Value == 4 })
	if begun, over := testkit.Receive(t, told), testkit.Receive(t, told); begun == nil || over != nil {
		t.Errorf("told %+v, %+v", begun, over)
	}
	again()
	if n := failures.Load(); n > 0 || len(told) > 0 {
		t.Errorf("told %d times more; %d failures are seen", len(told), n)
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
