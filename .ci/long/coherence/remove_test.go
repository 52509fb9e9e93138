package coherence

import (
	"errors"
	"testing"

	"vitrine/cache/coherence"
	"vitrine/cache/redistest"
)

// TestAPurgeOfWhatIsNotVitrinesRemovesNothing has an operator declare stale what is not there, and
// purge what that has made: replicas cannot tell that from nothing.
func TestAPurgeOfWhatIsNotVitrinesRemovesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	purge := removing(server.Client())
	must(t, server.Client().Set(t.Context(), "elsewhere", "", 0).Err())
	for _, kind := range coherence.Hard {
		must(t, server.Client().HSet(t.Context(), coherence.Prefix+"rules", "fresh_until", 0).Err())
		if purged, err := purge(t.Context(), kind, "rules"); !errors.Is(err, coherence.ErrNothing) {
			t.Errorf("%s: %v, %v", kind, purged, err)
		}
		must(t, server.Client().HSet(t.Context(), coherence.Prefix+"rules", "set", "a", "seq", 1).Err())
		if purged, err := purge(t.Context(), kind, "rules"); !errors.Is(err, errNotHeld) { // a stub
			t.Errorf("%s: %v, %v", kind, purged, err)
		}
		must(t, server.Client().HSet(t.Context(), coherence.Prefix+"rules", "set", "a", "seq", 1, "body", "{}").Err())
		if purged, err := purge(t.Context(), kind, "rules"); err != nil || len(purged) != 1 {
			t.Errorf("%s: %v, %v", kind, purged, err)
		}
	}
}
