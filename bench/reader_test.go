package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/go-faster/jx"
	"github.com/go-json-experiment/json/jsontext"
)

// catalogueOf5MB is a catalogue of about 5 MB: the bundled one, over and over.
func catalogueOf5MB(tb testing.TB) []byte {
	tb.Helper()
	raw, err := os.ReadFile("../upstream/sample/catalogue.json")
	if err != nil {
		tb.Fatal(err)
	}
	var one, all map[string][]json.RawMessage
	if err := json.Unmarshal(raw, &one); err != nil {
		tb.Fatal(err)
	}
	all = make(map[string][]json.RawMessage)
	for range 5<<20/len(raw) + 1 {
		for name, items := range one {
			all[name] = append(all[name], items...)
		}
	}
	out, err := json.Marshal(all) // compact
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// BenchmarkReader compares two JSON readers, each reading every value of the
// catalogue and keeping none. jx is the faster one, but takes invalid UTF-8 as
// it is and lone surrogates for U+FFFD, which would have to be looked for in a
// second pass; jsontext refuses both with their place.
func BenchmarkReader(b *testing.B) {
	in := catalogueOf5MB(b)
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
