package shape

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// recorded returns the body of an answer of the CMS, as it was received.
func recorded(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "drf", name+".http"))
	testkit.Must(tb, err)
	_, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		tb.Fatalf("%s has no body", name)
	}
	return body
}

// wholeSecond is a timestamp as Django REST Framework writes one that has no microseconds: the one
// thing in which the recordings are not as documented.
var wholeSecond = regexp.MustCompile(`("(?:created|updated)_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z"`)

// TestRecordingsComeOutByteForByte derives what is wanted from the recording itself, so that
// nothing but the six digits may differ.
func TestRecordingsComeOutByteForByte(t *testing.T) {
	for _, c := range []struct {
		resource Resource
		name     string
		items    int
	}{
		{Catalogue, "gvapp-get", 18},
		{Catalogue, "gvapp-accept-indent4", 18},
		{Catalogue, "edge-gvapp", 15},
		{Rules, "rules-get", 2},
		{Rules, "edge-rules", 2},
		{Rules, "edge-rules-indent4", 2},
		{Banners, "singlebanner-get", 6},
		{Banners, "edge-singlebanner", 34},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := recorded(t, c.name)
			compact := in
			switch c.name {
			case "gvapp-accept-indent4":
				compact = recorded(t, "gvapp-get")
			case "edge-rules-indent4":
				compact = recorded(t, "edge-rules")
			}
			want := wholeSecond.ReplaceAll(compact, []byte(`$1.000000Z"`))
			doc, err := Normalize(c.resource, in)
			testkit.Must(t, err)
			if !bytes.Equal(doc.Body, want) {
				t.Errorf("got\n%s\nwant\n%s", doc.Body, want)
			}
			if doc.Items != c.items {
				t.Errorf("%d items, want %d", doc.Items, c.items)
			}
			padded := len(wholeSecond.FindAll(compact, -1))
			if got := doc.Repairs.Total(); got != padded || doc.Repairs.Of(KindTimestamp).Count != padded {
				t.Errorf("%d repairs (%v), want %d timestamps", got, doc.Repairs, padded)
			}
			testkit.Check(t, conforms(t, documentType(c.resource), doc.Body))
		})
	}
}

func TestBannersAreTakenApartAsTheyStandInTheDocument(t *testing.T) {
	doc, err := Normalize(Banners, recorded(t, "edge-singlebanner"))
	testkit.Must(t, err)
	var want []map[string]any
	d := json.NewDecoder(bytes.NewReader(doc.Body))
	d.UseNumber()
	testkit.Must(t, d.Decode(&want))
	var joined []byte
	for i, b := range doc.Banners() {
		joined = append(append(joined, b.JSON...), ',')
		if fmt.Sprint(b.ID) != string(b.keys[0]) {
			t.Errorf("banner %d: id %d, key %s", i, b.ID, b.keys[0])
		}
		for j, name := range BannerFields() {
			if got := string(b.keys[j]); got != fmt.Sprint(want[i][name]) {
				t.Errorf("banner %d: %s is %q, want %v", i, name, got, want[i][name])
			}
		}
	}
	if got := "[" + string(joined[:len(joined)-1]) + "]"; got != string(doc.Body) {
		t.Errorf("got %s", got)
	}
	if none := (Document{Body: []byte("[]")}).Banners(); len(none) != 0 {
		t.Errorf("no banners: %v", none)
	}
}

var update = flag.Bool("update", false, "write the golden files from what comes out")

// TestGolden normalizes, for each route, a document with a little of all that a CMS can do to it,
// and holds body, indented body and repairs against files.
func TestGolden(t *testing.T) {
	for _, r := range Resources() {
		t.Run(string(r), func(t *testing.T) {
			path := filepath.Join("testdata", "golden", string(r))
			in, err := os.ReadFile(path + ".in.json")
			testkit.Must(t, err)
			doc, err := Normalize(r, in)
			testkit.Must(t, err)
			testkit.Check(t, conforms(t, documentType(r), doc.Body))
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
		testkit.Must(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	testkit.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}
