package cache

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/lease"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// keeping are options under which the last good copy is kept, and the file that it is in.
func keeping(t *testing.T, src Loader) (ReaderOptions[int64], string) {
	o := options(src)
	o.LastGood = t.TempDir()
	return o, filepath.Join(o.LastGood, "banners.lastgood")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// alone is a reader that starts without Redis.
func alone(t *testing.T, url string, o ReaderOptions[int64]) *Reader[int64] {
	t.Helper()
	_, r := readerWith(t, Options{URL: url}, o)
	return r
}

// saved waits until the version is in the file, and ends the store.
func saved(t *testing.T, s *Store, path string) {
	t.Helper()
	eventually(t, "the copy is kept", func() bool { return exists(path) })
	must(t, s.Close())
}

// kept are the options and the last good file of a replica that has ended.
func kept(t *testing.T, url string, src *source) (ReaderOptions[int64], string) {
	t.Helper()
	o, path := keeping(t, src)
	s, r := replica(t, url, o)
	warm(t, r)
	saved(t, s, path)
	return o, path
}

func TestAStartWithNeitherRedisNorLoaderServesTheLastGoodCopy(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, _ := kept(t, server.URL(), src)
	server.Kill()
	src.fail(errDown)
	late := alone(t, server.URL(), o)
	for range 3 {
		if a := get(t, late); a.Value != 1 || !a.Status.Stale || a.Status.Detail != DetailRedisAway {
			t.Errorf("got %+v", a)
		}
	}
	// A loader that is well ends it.
	server.Restart()
	eventually(t, "redis has lost it", func() bool { return get(t, late).Status.Detail == DetailRedisLost })
	src.fail(nil)
	src.version.Store(2)
	eventually(t, "the new version", func() bool { a := get(t, late); return a.Value == 2 && a.Status.Detail == DetailMemory })
}

// The link can be lost before the file was read: that Redis is away is known at once.
func TestALinkThatIsLostFirstLeavesTheLastGoodFile(t *testing.T) {
	src := newSource()
	o, path := kept(t, embeddedURL(t), src)
	late := openStore(t, "redis://127.0.0.1:1")
	r := &Reader[int64]{store: late, key: "banners", o: o, file: lastgood.At(o.LastGood, "banners"), unsaved: make(chan struct{}, 1), wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	r.memory.Store(&entry[int64]{})
	r.pause.Store(&pause{})
	r.watched = late.watch.Key("banners", lease.Beside(late.prefix, "banners"), func(watch.Event) {})
	r.notify(watch.Lost)
	r.recall()
	if e := r.memory.Load(); e.value != 1 {
		t.Errorf("%+v, and the file exists: %t", e, exists(path))
	}
}

// A purge that the process did not live to receive counts, if Redis lived on.
func TestWhatWasPurgedIsNotKept(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, path := keeping(t, src)
	s, r := replica(t, server.URL(), o)
	warm(t, r)
	eventually(t, "the copy is kept", func() bool { return exists(path) })
	src.fail(errDown)
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "the purge removes it", func() bool { return !exists(path) })

	src.fail(nil)
	eventually(t, "it is fetched again", func() bool { a, err := r.Get(t.Context()); return err == nil && a.Value == 1 })
	saved(t, s, path)
	src.fail(errDown)
	must(t, server.Client().Del(t.Context(), key).Err())
	_, late := replica(t, server.URL(), o)
	if a, err := late.Get(t.Context()); err == nil {
		t.Errorf("a document that was purged is served: %+v", a)
	}
	eventually(t, "it is removed", func() bool { return !exists(path) })
	for range 20 { // the closed store, which has not seen the purge
		watch.Signal(r.unsaved)
		if r.keepFile(); exists(path) {
			t.Fatal("the closed store has written it again")
		}
	}
}

// A document that is fetched after a purge is kept soon, however recently its predecessor was.
func TestWhatIsFetchedAfterAPurgeIsKeptSoon(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, path := keeping(t, src)
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	soonest := time.Hour
	for range 5 {
		eventually(t, "the copy is kept", func() bool { return exists(path) })
		must(t, server.Client().Del(t.Context(), key).Err())
		eventually(t, "the purge removes it", func() bool { return !exists(path) })
		elapsed := testkit.Stopwatch(t)
		eventually(t, "it is kept again", func() bool { _, err := r.Get(t.Context()); return err == nil && exists(path) })
		soonest = min(soonest, elapsed())
	}
	if soonest > time.Second/2 {
		t.Errorf("kept again after %v", soonest)
	}
}

func TestAnEmptyStoreIsFilledFromTheLastGoodCopy(t *testing.T) {
	src := newSource()
	o, _ := kept(t, embeddedURL(t), src)
	src.fail(errDown)
	_, late := replica(t, embeddedURL(t), o) // another one, as after a restart
	if a := get(t, late); a.Value != 1 || a.Status.Detail != DetailRedisLost {
		t.Errorf("got %+v", a)
	}
}

func TestAFileThatIsDamagedOrTooOldIsNotServed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string, o *ReaderOptions[int64]) error{
		"damaged": func(path string, _ *ReaderOptions[int64]) error { return os.WriteFile(path, []byte("x\ny\nz"), 0o600) },
		"too old": func(_ string, o *ReaderOptions[int64]) error {
			file := lastgood.At(o.LastGood, "banners")
			d, err := file.Load()
			must(t, err)
			d.FetchedAt -= 2 * o.StaleIfError.Milliseconds()
			d.StaleFrom -= 2 * o.StaleIfError.Milliseconds()
			return file.Save(t.Context(), d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			o, path := kept(t, server.URL(), src)
			server.Kill()
			src.fail(errDown)
			must(t, spoil(path, &o))
			late := alone(t, server.URL(), o)
			if a, err := late.Get(t.Context()); err == nil {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// A purge is noticed more than once, and a look that finds nothing asks for the file's removal
// again.
func TestAFileThatCannotBeRemovedIsLoggedOnce(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, path := keeping(t, src)
	must(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	var log testkit.Buffer
	s, r := readerWith(t, Options{URL: server.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, o)
	for range 3 {
		eventually(t, "it is fetched", func() bool { a, err := r.Get(t.Context()); return err == nil && a.Status.Detail == DetailMemory })
		must(t, server.Client().Del(t.Context(), key).Err())
		eventually(t, "the purge counts", func() bool { a, err := r.Get(t.Context()); return err == nil && a.Status.Detail != DetailMemory })
	}
	must(t, s.Close())
	if n := strings.Count(log.String(), "cannot be removed"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// TestTheLastGoodFileOfARefusedDocumentIsKept restarts a replica whose Redis has never held the
// document, or holds an older one.
func TestTheLastGoodFileOfARefusedDocumentIsKept(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]bool{"nothing held": false, "an older version held": true} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			if older {
				fill(t, server.Client(), acquire(t, server.Client(), time.Minute), 1)
				must(t, server.Client().HSet(t.Context(), key, "fresh_until", 1).Err())
			}
			refusals["OOM"](t, server)
			src.version.Store(2)
			o, path := keeping(t, src)
			s, r := replica(t, server.URL(), o)
			eventually(t, "it is refused", func() bool { a := get(t, r); return a.Value == 2 && a.Status.Detail == DetailRedisRefused })
			eventually(t, "the copy is kept", func() bool { return exists(path) })
			watch.Sleep(t.Context(), 2*savePause)
			must(t, s.Close())
			src.fail(errDown)
			_, r = replica(t, server.URL(), o)
			for range 3 {
				if a := get(t, r); a.Value != 2 {
					t.Errorf("%+v", a)
				}
			}
			if !exists(path) {
				t.Error("the file is removed")
			}
		})
	}
}

// TestAPinnedCopyIsKeptForAStart has a pin last longer than a copy is served, or end after that, and
// neither Redis nor the CMS be there at the next start.
func TestAPinnedCopyIsKeptForAStart(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"pinned": false, "no longer pinned": true} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			o, _ := keeping(t, src)
			o.Describe = described(src).Describe
			s, r := replica(t, server.URL(), o)
			b := backend{client: server.Client()}
			change(t, b, src, r, 1, 2)
			restore(t, s, 1, time.Hour)
			fetched := time.Now().Add(-2 * o.StaleIfError).UnixMilli()
			must(t, b.client.HSet(t.Context(), key, "fetched_at", fetched).Err())
			eventually(t, "a look has seen that", func() bool { return r.memory.Load().fetchedAt == fetched })
			src.fail(errDown)
			kept := func(ended bool) {
				eventually(t, "it is kept", func() bool {
					get(t, r)
					d, err := r.file.Load()
					return err == nil && d.FetchedAt == fetched && (d.FreshUntil <= 0) == ended
				})
			}
			kept(false) // the end of a pin that this replica has not seen gives it nothing older
			if ended {
				_, err := s.Unpin(t.Context(), "banners")
				must(t, err)
				kept(true)
			}
			must(t, s.Close())
			server.Kill()
			for range 2 { // the first writes the file again
				r := alone(t, server.URL(), o)
				if a := get(t, r); a.Value != 1 || !a.Status.Stale {
					t.Errorf("got %+v", a)
				}
				watch.Sleep(t.Context(), 2*savePause)
				must(t, r.store.Close())
			}
		})
	}
}

// TestAFileIsNotServedForLongerThanMemoryIs has somebody write that an old document is fresh.
func TestAFileIsNotServedForLongerThanMemoryIs(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, _ := keeping(t, src)
	s, r := replica(t, server.URL(), o)
	warm(t, r)
	src.fail(errDown)
	now, fetched := time.Now(), time.Now().Add(-2*o.StaleIfError).UnixMilli()
	must(t, server.Client().HSet(t.Context(), key, "fresh_until", now.Add(o.StaleIfError).UnixMilli(), "fetched_at", fetched).Err())
	eventually(t, "it is kept", func() bool { d, err := r.file.Load(); return err == nil && d.FetchedAt == fetched })
	if r.memory.Load().holds(watch.Now()) {
		t.Error("memory would serve it")
	}
	must(t, s.Close())
	server.Kill()
	if a, err := alone(t, server.URL(), o).Get(t.Context()); err == nil {
		t.Errorf("got %+v", a)
	}
}
