package shape

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/go-faster/jx"
	"github.com/go-json-experiment/json/jsontext"
)

// megabytes is a catalogue of about 5 MB: the recorded one, over and over.
func megabytes(tb testing.TB) []byte {
	tb.Helper()
	var one, all Summary
	d := newDecoder(Catalogue, recorded(tb, "gvapp-get"))
	if err := d.document(func() error { return one.decode(d) }); err != nil {
		tb.Fatal(err)
	}
	for range 5 << 20 / len(d.in) {
		all.Artist = append(all.Artist, one.Artist...)
		all.Artwork = append(all.Artwork, one.Artwork...)
		all.Gallery = append(all.Gallery, one.Gallery...)
	}
	return all.appendTo(nil)
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

// BenchmarkReader compares two JSON readers, each reading every value of the
// catalogue and keeping none. jx is the faster one, but takes invalid UTF-8 as
// it is and lone surrogates for U+FFFD, which would have to be looked for in a
// second pass; jsontext refuses both with their place.
func BenchmarkReader(b *testing.B) {
	in := megabytes(b)
	b.Run("jsontext", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			d := jsontext.NewDecoder(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
			for {
				var err error
				switch d.PeekKind() {
				case '{', '[', '}', ']':
					_, err = d.ReadToken()
				default:
					_, err = d.ReadValue()
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("jx", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			if err := readJX(jx.DecodeBytes(in)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func readJX(d *jx.Decoder) error {
	switch d.Next() {
	case jx.Object:
		return d.ObjBytes(func(d *jx.Decoder, _ []byte) error { return readJX(d) })
	case jx.Array:
		return d.Arr(readJX)
	case jx.String:
		_, err := d.StrBytes()
		return err
	case jx.Number:
		_, err := d.Num()
		return err
	case jx.Bool:
		_, err := d.Bool()
		return err
	default:
		return d.Null()
	}
}

// TestFiveMegabytesAreNormalizedFrugally counts all that is allocated, which
// bounds what is held at any moment; the input itself is one more.
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
