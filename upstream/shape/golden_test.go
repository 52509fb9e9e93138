package shape

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files from what comes out")

// TestGolden normalizes, for each route, a document with a little of all that a CMS can do to it,
// and holds body, indented body and repairs against files.
func TestGolden(t *testing.T) {
	for _, r := range Resources() {
		t.Run(string(r), func(t *testing.T) {
			path := filepath.Join("testdata", "golden", string(r))
			in, err := os.ReadFile(path + ".in.json")
			if err != nil {
				t.Fatal(err)
			}
			doc, err := Normalize(r, in)
			if err != nil {
				t.Fatal(err)
			}
			if err := conforms(t, documentType(r), doc.Body); err != nil {
				t.Error(err)
			}
			var repairs strings.Builder
			fmt.Fprintf(&repairs, "%d items, %d repairs\n", doc.Items, doc.Repairs.Total())
			for _, r := range doc.Repairs {
				fmt.Fprintf(&repairs, "%s %d\n", r.Kind, r.Count)
				for _, p := range r.Paths {
					fmt.Fprintf(&repairs, "\t%s\n", p)
				}
			}
			golden(t, path+".json", doc.Body)
			golden(t, path+".indent2.json", Indent(nil, doc.Body, 2))
			golden(t, path+".repairs.txt", []byte(repairs.String()))
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}
