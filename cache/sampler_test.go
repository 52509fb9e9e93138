package cache

import (
	"testing"
)

func TestSamplerFindsMemoryThatDiffersWithoutAnInvalidation(t *testing.T) {
	b := anyStore(t)
	_, r := replica(t, b.url, options(newSource()))
	warm(t, r)
	if r.differs(r.memory.Load()) {
		t.Fatal("what is in memory is what redis holds")
	}
	// A copy that nothing in Redis explains, as a mistake in admission would leave it.
	wrong := *r.memory.Load()
	doc := *wrong.doc
	doc.ETag = `"wrong"`
	wrong.doc = &doc
	eventually(t, "the difference is found", func() bool {
		e := wrong
		e.mark = r.watched.Mark() // the first fill's own invalidation may be received only now
		r.memory.Store(&e)
		return r.differs(r.memory.Load())
	})
}

func TestSamplerCallsNoPurgeADifference(t *testing.T) {
	b := anyStore(t)
	src, r := serving(t, b.url)
	for range 50 {
		warm(t, r)
		src.version.Add(1)
		must(t, b.client.Del(t.Context(), key).Err())
		if r.differs(r.memory.Load()) {
			t.Fatal("a purge under way was taken for a difference")
		}
	}
}
