package cache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"vitrine/cache/redistest"
)

// TestADocumentThatAProcessCannotLoadIsLoadedByOthers has visitors ask only the replica whose
// breaker is open. Another one, which nobody asks, fetches for it, once.
func TestADocumentThatAProcessCannotLoadIsLoadedByOthers(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		due  func(s *Store) error
	}{
		"at the start":            {},
		"after a hard purge":      {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", false); return err }},
		"after a soft purge":      {due: func(s *Store) error { _, err := s.Purge(context.Background(), "banners", true); return err }},
		"past its freshness":      {due: func(*Store) error { <-time.After(300 * time.Millisecond); return nil }},
		"without CLIENT TRACKING": {args: []string{"--rename-command", "CLIENT", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, test.args...)
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
			other, err := NewReader(openStore(t, server.URL()), "banners", able)
			must(t, err)
			asked, err := NewReader(openStore(t, server.URL()), "banners", unable)
			must(t, err)
			s := asked.store
			eventually(t, "purges are received", func() bool { return test.args != nil || s.Listening() && other.store.Listening() })
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
