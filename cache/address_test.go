package cache

import (
	"testing"
	"time"

	"vitrine/cache/redistest"
)

// TestADocumentOnItsWayIsNoSilence has a link on which a document takes several times as long as
// Redis may be silent.
func TestADocumentOnItsWayIsNoSilence(t *testing.T) {
	t.Parallel()
	for name, relayTo := range map[string]func(testing.TB, string) *redistest.Relay{"TCP": redistest.NewRelay, "TLS": redistest.NewSecureRelay} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			way := relayTo(t, server.Addr)
			src := newSource()
			o := options(padded(src, 2<<20))
			_, r := replicaWith(t, prompt(way.URL()), o)
			_, other := replicaWith(t, prompt(way.URL()), o)
			way.Throttle(4 << 20) // half a second for each way
			for _, r := range []*Reader[int64]{r, other} {
				if a := get(t, r); a.Value != 1 || a.Status.Detail == DetailRedisAway || a.Status.Detail == DetailRedisRefused {
					t.Errorf("got %+v", a.Status)
				}
			}
			src.version.Store(2)
			must(t, server.Client().Del(t.Context(), key).Err())
			for _, r := range []*Reader[int64]{r, other} {
				eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
			}
			if n := src.loads.Load(); n != 2 || !r.store.Up() {
				t.Errorf("%d loads, want one for the start and one for the purge; up: %t", n, r.store.Up())
			}
		})
	}
}

// TestAFillThatTakesLongerThanItsLeaseIsNotLostForEver has two replicas, of which each could take
// over from the other while a document is on its way to Redis.
func TestAFillThatTakesLongerThanItsLeaseIsNotLostForEver(t *testing.T) {
	server := startRedis(t)
	way := redistest.NewRelay(t, server.Addr)
	src := newSource()
	o := options(padded(src, 3<<19))
	o.FetchTimeout = 300 * time.Millisecond
	_, r := replicaWith(t, prompt(way.URL()), o)
	_, other := replicaWith(t, prompt(way.URL()), o)
	way.Throttle(1 << 20)
	for _, r := range []*Reader[int64]{r, other} {
		eventually(t, "it is stored", func() bool {
			_, _ = r.Get(t.Context())
			return server.Client().HExists(t.Context(), key, "body").Val()
		})
	}
	if n := src.loads.Load(); n > 4 {
		t.Errorf("%d loads", n)
	}
}
