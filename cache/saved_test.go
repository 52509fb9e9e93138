package cache

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/cache/lastgood"
	"vitrine/cache/poll"
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

// keptFile are the options and the last good file of a replica that has ended.
func keptFile(t *testing.T, url string, src *cms) (ReaderOptions[int64], string) {
	t.Helper()
	o, path := keeping(t, src)
	s, r := replica(t, url, o)
	warm(t, r)
	saved(t, s, path)
	return o, path
}

func TestAStartWithNeitherRedisNorLoaderServesTheLastGoodCopy(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, _ := keptFile(t, server.URL(), src)
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
}

func TestAnEmptyStoreIsFilledFromTheLastGoodCopy(t *testing.T) {
	src := newSource()
	o, _ := keptFile(t, embeddedURL(t), src)
	src.fail(errDown)
	_, late := replica(t, embeddedURL(t), o) // another one, as after a restart
	if a := get(t, late); a.Value != 1 || a.Status.Detail != DetailRedisLost {
		t.Errorf("got %+v", a)
	}
}

func TestAFileThatIsTooOldIsNotServed(t *testing.T) {
	server, src := startRedis(t), newSource()
	o, _ := keptFile(t, server.URL(), src)
	server.Kill()
	src.fail(errDown)
	file := lastgood.At(o.LastGood, "banners")
	d, err := file.Load()
	must(t, err)
	d.FetchedAt -= 2 * o.StaleIfError.Milliseconds()
	d.StaleFrom -= 2 * o.StaleIfError.Milliseconds()
	must(t, file.Save(t.Context(), d))
	if a, err := alone(t, server.URL(), o).Get(t.Context()); err == nil {
		t.Errorf("got %+v", a)
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
			poll.Sleep(t.Context(), 2*savePause)
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

// TestADocumentThatIsTooOldIsNotServed has somebody write that an old document is fresh.
func TestADocumentThatIsTooOldIsNotServed(t *testing.T) {
	b, src := anyStore(t), newSource()
	src.fail(errDown)
	o := options(src)
	now := time.Now()
	fill(t, b.client, acquire(t, b.client, time.Minute), 1)
	must(t, b.client.HSet(t.Context(), key, "fresh_until", now.Add(o.StaleIfError).UnixMilli(), "fetched_at", now.Add(-2*o.StaleIfError).UnixMilli()).Err())
	_, r := replica(t, b.url, o)
	if a, err := r.Get(t.Context()); err == nil {
		t.Errorf("got %+v", a)
	}
}
