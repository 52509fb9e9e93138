package cache

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// always is options with which documents are fetched although nobody reads.
func always(src Loader, ttl time.Duration) ReaderOptions[int64] {
	o := options(src)
	o.Always, o.TTL = true, ttl
	return o
}

func TestDocumentsStayFreshWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	const ttl = 150 * time.Millisecond
	src := newSource()
	began := poll.Now()
	replica(t, b.url, always(src, ttl))
	replica(t, b.url, always(src, ttl))
	eventually(t, "it is refreshed, and again", func() bool { return src.loads.Load() >= 5 })
	loads := src.loads.Load()
	if most := int64((poll.Now()-began)/ttl) + 1; loads > most || src.most.Load() > 1 {
		t.Errorf("%d loads, at most %d at once; want %d, one at a time", loads, src.most.Load(), most)
	}
}

func TestAHardPurgeIsFollowedByAFetchWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	_, r := replica(t, b.url, always(src, time.Minute))
	_, other := replica(t, b.url, always(src, time.Minute))
	holding := func(version int64) func() bool {
		return func() bool {
			return r.Snapshot().Value == version && other.Snapshot().Value == version
		}
	}
	eventually(t, "both hold it", holding(1))
	src.version.Store(2)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "both hold the new one", holding(2))
	if n := src.loads.Load(); n != 2 {
		t.Errorf("%d loads, want 2", n)
	}
}

// TestNothingIsFetchedDuringAPause has the attendant keep a failure's pause, which a purge ends.
func TestNothingIsFetchedDuringAPause(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	o := always(src, time.Minute)
	o.BackoffFirst, o.BackoffMost = time.Hour, time.Hour
	src.fail(errDown)
	_, r := replica(t, b.url, o)
	eventually(t, "it has failed", func() bool { return r.Snapshot().Failures > 0 && !r.Snapshot().Fetching })
	poll.Sleep(t.Context(), 3*unablePause)
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
	src.fail(nil)
	must(t, b.client.Del(t.Context(), key).Err())
	eventually(t, "it is fetched", func() bool { return r.Snapshot().Value == 1 })
}

// TestDocumentsStayFreshWithoutRedis has each replica refresh its own copy.
func TestDocumentsStayFreshWithoutRedis(t *testing.T) {
	server, src := startRedis(t), newSource()
	_, r := replica(t, server.URL(), always(src, 100*time.Millisecond))
	eventually(t, "it is held", func() bool { return r.Snapshot().Value == 1 })
	server.Kill()
	eventually(t, "it is noticed", func() bool { return !r.store.Up() })
	src.version.Store(2)
	eventually(t, "it is refreshed", func() bool { return r.Snapshot().Value == 2 })
}

// TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain has Redis refuse writes while a document is
// loaded: neither the fill nor the release reaches it, so that the replica finds a lease of its
// own.
func TestALeaseThatCannotBeGivenBackIsNotTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			src, r := serving(t, server.URL())
			warm(t, r)
			must(t, server.Client().Del(t.Context(), key).Err())
			release := src.hold()
			var reading sync.WaitGroup
			reading.Go(func() {
				for src.loads.Load() < 2 { // until the purge is received
					_, _ = r.Get(t.Context())
				}
			})
			testkit.Receive(t, src.entered)
			refuse(t, server)
			release()
			reading.Wait()
			before := src.loads.Load()
			poll.Sleep(t.Context(), time.Second)
			if n := src.loads.Load() - before; n > 1 {
				t.Errorf("loaded %d times in a second, though nobody read", n)
			}
		})
	}
}

// TestADocumentThatIsDueIsNotTriedWithoutRest has Redis refuse writes and the CMS fail after a soft
// purge.
func TestADocumentThatIsDueIsNotTriedWithoutRest(t *testing.T) {
	server, src := startRedis(t), newSource()
	o := options(src)
	o.BackoffFirst, o.BackoffMost = time.Minute, time.Minute
	_, r := replica(t, server.URL(), o)
	warm(t, r)
	src.fail(errDown)
	refuseAfter(t, server.Client(), "fresh_until", "0")
	eventually(t, "the CMS is tried", func() bool { return src.loads.Load() > 1 })
	before := commands(t, server)
	poll.Sleep(t.Context(), time.Second)
	if n := commands(t, server) - before; n > 500 {
		t.Errorf("%d commands in a second, though nobody read", n)
	}
}

// TestADocumentThatAProcessCannotLoadIsLoadedByOthers has visitors ask only the replica whose
// breaker is open. Another one, which nobody asks, fetches for it, once.
func TestADocumentThatAProcessCannotLoadIsLoadedByOthers(t *testing.T) {
	for name, test := range map[string]struct {
		due func(s *Store) error
	}{
		"at the start":       {},
		"after a hard purge": {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", false, ""); return err }},
		"after a soft purge": {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", true, ""); return err }},
		"past its freshness": {due: func(*Store) error { <-time.After(300 * time.Millisecond); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			src := newSource()
			able, unable := options(src), options(newSource())
			if name == "past its freshness" {
				able.TTL, able.StaleWhileRevalidate, able.StaleIfError = 200*time.Millisecond, 0, 0
				unable.TTL, unable.StaleWhileRevalidate, unable.StaleIfError = able.TTL, 0, 0
			}
			open := fmt.Errorf("fetch: %w", untried(time.Hour))
			unable.BackoffMost = time.Hour
			unable.Unable = func() error { return open }
			unable.Loader = LoaderFunc(func(context.Context, string, *Document) (Loaded, error) { return Loaded{}, open })
			other, asked := alone(t, server.URL(), able), alone(t, server.URL(), unable)
			s := asked.store
			eventually(t, "purges are received", func() bool { return s.Answering() && other.store.Answering() })
			if test.due != nil {
				get(t, other)
				src.version.Store(2)
				must(t, test.due(s))
			}
			want := src.version.Load()
			eventually(t, "the one that is asked has the document", func() bool {
				a, err := asked.Get(t.Context())
				return err == nil && a.Value == want && !a.Status.Stale
			})
			if n := src.loads.Load(); name != "past its freshness" && n != want {
				t.Errorf("%d loads, want %d", n, want)
			}
		})
	}
}

// commands is how many commands the server has run so far.
func commands(t *testing.T, server *redistest.Server) int {
	t.Helper()
	return int(info(t, server, "total_commands_processed"))
}

// info is the sum of these fields of INFO.
func info(t *testing.T, server *redistest.Server, fields ...string) (sum float64) {
	t.Helper()
	all := server.Client().Info(t.Context(), "everything").Val()
	for _, name := range fields {
		_, rest, _ := strings.Cut(all, "\r\n"+name+":")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseFloat(text, 64)
		must(t, err)
		sum += n
	}
	return sum
}

// brief is a source whose first loads are to be fresh for a tenth of a second.
type brief struct {
	*cms
	first int64
}

func (b brief) Load(ctx context.Context, key string, held *Document) (Loaded, error) {
	l, err := b.cms.Load(ctx, key, held)
	if b.loads.Load() <= b.first {
		l.Fresh = time.Second / 10
	}
	return l, err
}

func TestADocumentThatMayNotBeTheNewestIsLoadedAgainWithoutVisitors(t *testing.T) {
	b := anyStore(t)
	src := newSource()
	_, r := replicaWith(t, Options{URL: b.url, Attentive: true}, options(brief{src, 2}))
	get(t, r)
	eventually(t, "it is loaded until it is fresh for the TTL", func() bool {
		d := r.Snapshot().Document
		return src.loads.Load() == 3 && d != nil && time.Until(d.FreshUntil) > time.Second
	})
}
