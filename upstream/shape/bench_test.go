package shape

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"testing"
)

// megabytes is a catalogue of about 5 MB: the recorded one, over and over.
func megabytes(tb testing.TB) []byte {
	tb.Helper()
	one := recorded(tb, "gvapp-get")
	var lists map[string][]json.RawMessage
	if err := json.Unmarshal(one, &lists); err != nil {
		tb.Fatal(err)
	}
	for name, items := range lists {
		lists[name] = slices.Repeat(items, 5<<20/len(one))
	}
	all, err := json.Marshal(lists)
	if err != nil {
		tb.Fatal(err)
	}
	doc, err := Normalize(Catalogue, all)
	if err != nil {
		tb.Fatal(err)
	}
	return doc.Body
}

// TestFiveMegabytesAreNormalizedFrugally counts all that is allocated, which bounds what is held at
// any moment; the input itself is one more.
func TestFiveMegabytesAreNormalizedFrugally(t *testing.T) {
	in := megabytes(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	doc, err := Normalize(Catalogue, in)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc.Body, in) {
		t.Error("a documented catalogue was changed")
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 5*uint64(len(in)) {
		t.Errorf("allocated %d bytes for a document of %d, want at most five times that", got, len(in))
	}
}
