package cache

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestAnOlderSnapshotIsALoss has Redis come back empty, from a snapshot that was made between a purge and
// the fill that followed, or from before the document was stored at all.
func TestAnOlderSnapshotIsALoss(t *testing.T) {
	t.Parallel()
	for name, purged := range map[string]bool{"empty": false, "from before the first document": false, "from between a purge and its fill": true} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			client := server.Client()
			l := acquire(t, client, time.Minute)
			if purged {
				fill(t, client, l, 1)
				must(t, client.Del(t.Context(), key).Err())
				l = acquire(t, client, time.Minute)
			}
			if name != "empty" {
				must(t, client.Save(t.Context()).Err())
			}
			fill(t, client, l, 2)
			_, r := replica(t, server.URL(), options(src))
			warm(t, r)
			src.fail(errDown)
			server.Restart()
			eventually(t, "the loss is said", func() bool {
				a := get(t, r) // never an error
				return a.Value == 2 && a.Status.Detail == DetailRedisLost
			})
			if name != "empty" {
				must(t, client.Del(t.Context(), key).Err())
				eventually(t, "a purge afterwards counts", func() bool { _, err := r.Get(t.Context()); return err != nil })
			}
			src.fail(nil)
			src.version.Store(3)
			eventually(t, "the first fetch that succeeds ends it", func() bool {
				a, err := r.Get(t.Context())
				return err == nil && a.Value == 3 && a.Status.Detail == DetailMemory
			})
		})
	}
}

// TestADocumentLoadedUnderALeaseIsKept has Redis die, or refuse, after the lease is announced and
// before the fill.
func TestADocumentLoadedUnderALeaseIsKept(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*testing.T, *redistest.Server){
		"dies":    func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"refuses": func(t *testing.T, s *redistest.Server) { refusals["NOREPLICAS"](t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			server, src := startRedis(t), newSource()
			var r *Reader[int64]
			_, r = replica(t, server.URL(), options(LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
				loaded, err := src.Load(ctx, k, held)
				if src.loads.Load() == 1 {
					eventually(t, "a poll has shown the placeholder", func() bool {
						return r.view.Load().saw.Holds == lease.Placeholder
					})
					trouble(t, server)
				}
				return loaded, err
			})))
			if a := get(t, r); a.Value != 1 {
				t.Fatalf("%+v", a)
			}
			src.fail(errDown)
			for range 10 {
				get(t, r)
			}
			// It is due once where Redis was too slow to refuse it, so that it counts as loaded alone.
			if n := src.loads.Load(); n > 2 {
				t.Errorf("%d loads, want 2 at most", n)
			}
		})
	}
}

// TestABrokenConnectionIsNoRefusal cuts the connection on which a big document is stored.
func TestABrokenConnectionIsNoRefusal(t *testing.T) {
	server, src := startRedis(t), newSource()
	way := redistest.NewRelay(t, server.Addr)
	var log testkit.Buffer
	big := padded(src, 4<<20)
	store, r := replicaWith(t, Options{URL: way.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, options(LoaderFunc(func(ctx context.Context, k string, held *Document) (Loaded, error) {
		way.Throttle(8 << 20)
		time.AfterFunc(100*time.Millisecond, func() { way.Cut(); way.Heal() })
		return big.Load(ctx, k, held)
	})))
	if a := get(t, r); a.Value != 1 || a.Status.Detail == DetailRedisRefused {
		t.Errorf("%+v", a.Status)
	}
	if strings.Contains(log.String(), "refuses") || store.Refusing() != "" {
		t.Errorf("refusing: %q\n%s", store.Refusing(), log.String())
	}
}
