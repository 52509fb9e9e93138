package cache

import (
	"context"
	"testing"
	"time"

	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

func TestASnapshotTellsWhatIsHeldAndFetchesNothing(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	if s := r.Snapshot(); s.State != StateMissing || s.Document != nil {
		t.Errorf("before the first read: %+v", s)
	}
	if src.loads.Load() != 0 {
		t.Error("looking made a load")
	}
	a := get(t, r)
	var s Snapshot[int64]
	eventually(t, "the copy is fresh and coherent", func() bool {
		s = r.Snapshot()
		return s.State == StateFresh && s.Coherent && !s.Failing && !s.Fetching
	})
	if s.Document.ETag != a.Document.ETag || s.ServableUntil.Before(time.Now().Add(time.Hour)) {
		t.Errorf("after the first read: %+v", s)
	}
	must(t, b.client.Del(t.Context(), "vitrine:banners").Err())
	eventually(t, "what was purged is missing", func() bool { return r.Snapshot().State == StateMissing })
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
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
	if s := r.Snapshot(); s.State != StateFresh {
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
	holdLooks(t, r)
	late := earlyLook(t, r)
	f, _ := r.fly(t.Context())
	testkit.Receive(t, f.done)
	eventually(t, "the copy is kept", func() bool { return exists(path) })
	late()
	if s := r.Snapshot(); s.State != StateFresh || !exists(path) {
		t.Errorf("after the late look: %+v; kept: %t", s, exists(path))
	}
}

// Nor does what such a look has found count as the last content.
func TestALateLookDoesNotForgetWhenTheContentChanged(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	holdLooks(t, r)
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

func TestASnapshotTellsAStaleCopyOfAFailingLoader(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	get(t, r)
	src.fail(errDown)
	must(t, b.client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	eventually(t, "the copy is stale and its loader fails", func() bool {
		s := r.Snapshot()
		return s.State == StateStale && s.Failing && s.Document != nil
	})
}
