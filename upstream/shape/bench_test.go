package shape

import (
	"bytes"
	"runtime"
	"testing"
)

// megabytes is a catalogue of about 5 MB: the recorded one, over and over.
func megabytes(tb testing.TB) []byte {
	tb.Helper()
	var one, all Summary
	d := newDecoder(Catalogue, recorded(tb, "gvapp-get"))
	if err := d.document(func() error { return readSummary(d, &one) }); err != nil {
		tb.Fatal(err)
	}
	for range 5 << 20 / len(d.in) {
		all.Artist = append(all.Artist, one.Artist...)
		all.Artwork = append(all.Artwork, one.Artwork...)
		all.Gallery = append(all.Gallery, one.Gallery...)
	}
	return summaries.append(nil, &all)
}

func BenchmarkNormalizeCatalogue(b *testing.B) {
	in := megabytes(b)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Normalize(Catalogue, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNormalize(b *testing.B) {
	for _, c := range []struct {
		r    Resource
		file string
	}{{Catalogue, "gvapp-get"}, {Rules, "rules-get"}, {Banners, "edge-singlebanner"}} {
		b.Run(string(c.r), func(b *testing.B) {
			in := recorded(b, c.file)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Normalize(c.r, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIndent(b *testing.B) {
	in := megabytes(b)
	var out []byte
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		out = Indent(out[:0], in, 4)
	}
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
