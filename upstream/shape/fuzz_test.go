package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"vitrine/cmd/testkit"
)

func FuzzCatalogue(f *testing.F) {
	fuzz(f, Catalogue, "gvapp-get")
}

func FuzzRules(f *testing.F) {
	fuzz(f, Rules, "rules-get", "edge-rules-indent4")
}

func FuzzBanners(f *testing.F) {
	fuzz(f, Banners, "singlebanner-get")
}

// fuzz holds that any input becomes a document as documented, or an error that names its place, and
// never a panic.
func fuzz(f *testing.F, r Resource, recordings ...string) {
	f.Helper()
	for _, name := range recordings {
		f.Add(recorded(f, name))
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "golden", string(r)+".in.json"))
	testkit.Must(f, err)
	f.Add(golden)
	seen := map[string]bool{} // one field of each type is enough to begin with
	for _, p := range places {
		fields := documentedFields(f, p.name)
		for _, field := range fields {
			if p.resource != r || seen[field.typ] {
				continue
			}
			seen[field.typ] = true
			for value := range values {
				f.Add([]byte(strings.Replace(p.document, "%s", objectWith(fields, field.name, value), 1)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) { holdProperties(t, r, in) })
}

func holdProperties(t *testing.T, r Resource, in []byte) {
	t.Helper()
	doc, err := Normalize(r, in)
	if err != nil {
		holdRefusal(t, r, err)
		return
	}
	if !json.Valid(doc.Body) || !utf8.Valid(doc.Body) {
		t.Fatalf("not JSON: %q", doc.Body)
	}
	if err := conforms(t, documentType(r), doc.Body); err != nil {
		t.Fatalf("not as documented: %v\n%s", err, doc.Body)
	}
	if limit := 8*len(in) + 1<<20; len(doc.Body) > limit {
		t.Fatalf("%d bytes from %d, want at most %d", len(doc.Body), len(in), limit)
	}
	if bytes.Contains(doc.Body, []byte("\u2028")) || bytes.Contains(doc.Body, []byte("\u2029")) {
		t.Fatalf("a line separator is not escaped: %q", doc.Body)
	}
	again, err := Normalize(r, doc.Body)
	if err != nil {
		t.Fatalf("what was normalized is refused: %v\n%s", err, doc.Body)
	}
	if !bytes.Equal(again.Body, doc.Body) || again.Items != doc.Items {
		t.Fatalf("not idempotent: %s\nthen %s", doc.Body, again.Body)
	}
	// A vacant relation stays null, and is counted again.
	if again.Repairs.Total() != again.Repairs.Of(KindVacant).Count {
		t.Fatalf("repaired twice: %v\n%s", again.Repairs, doc.Body)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc.Body); err != nil || !bytes.Equal(compact.Bytes(), doc.Body) {
		t.Fatalf("not compact: %s, %v", doc.Body, err)
	}
}

func holdRefusal(t *testing.T, r Resource, err error) {
	t.Helper()
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || !errors.Is(err, ErrRefused) {
		t.Fatalf("not a refusal: %v", err)
	}
	if !strings.HasPrefix(refused.Path, string(r)) || refused.Want == "" || refused.Got == "" {
		t.Fatalf("says too little: %#v", refused)
	}
	if s := err.Error(); len(s) > 4096 || !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\u2028\u2029") {
		t.Fatalf("not fit for a log: %q", s)
	}
}

func TestRecordingsHaveTheProperties(t *testing.T) {
	for r, names := range map[Resource][]string{
		Catalogue: {"gvapp-get", "edge-gvapp"},
		Rules:     {"rules-get", "edge-rules"},
		Banners:   {"singlebanner-get", "edge-singlebanner"},
	} {
		for _, name := range names {
			in := recorded(t, name)
			holdProperties(t, r, in)
			step := max(1, len(in)/200)
			for n := 0; n < len(in); n += step { // cut short anywhere, it is refused
				if _, err := Normalize(r, in[:n]); err == nil {
					t.Fatalf("%s: the first %d bytes were taken for a document", name, n)
				}
			}
		}
	}
}

// megabytes is a catalogue of about 5 MB: the recorded one, over and over.
func megabytes(tb testing.TB) []byte {
	tb.Helper()
	one := recorded(tb, "gvapp-get")
	var lists map[string][]json.RawMessage
	testkit.Must(tb, json.Unmarshal(one, &lists))
	for name, items := range lists {
		lists[name] = slices.Repeat(items, 5<<20/len(one))
	}
	all, err := json.Marshal(lists)
	testkit.Must(tb, err)
	doc, err := Normalize(Catalogue, all)
	testkit.Must(tb, err)
	return doc.Body
}

// TestFiveMegabytesAreNormalizedFrugally counts all that is allocated, which bounds what is held at
// any moment; the input itself is one more.
func TestFiveMegabytesAreNormalizedFrugally(t *testing.T) {
	in := megabytes(t)
	var doc Document
	var err error
	got := testkit.Allocated(func() { doc, err = Normalize(Catalogue, in) })
	testkit.Must(t, err)
	if !bytes.Equal(doc.Body, in) {
		t.Error("a documented catalogue was changed")
	}
	if got > 5*len(in) {
		t.Errorf("allocated %d bytes for a document of %d, want at most five times that", got, len(in))
	}
}

// TestNumbersAreReadInTimeLinearInTheirDigits has integers of two million digits.
func TestNumbersAreReadInTimeLinearInTheirDigits(t *testing.T) {
	zeros := strings.Repeat("0", 2_000_000)
	for number, want := range map[string]string{
		"1." + zeros:                          "1",
		"1" + zeros + "e-2000000":             "1",
		"0." + zeros[1:] + "7e2000000":        "7",
		"-1." + zeros + "1":                   "",
		"1" + zeros:                           "",
		"1" + zeros + "e-9999999999999999999": "",
		"0." + zeros + "e9999999999999999999": "0",
	} {
		began := time.Now()
		doc, err := Normalize(Banners, []byte(`[{"id":`+number+`}]`))
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("%.20s…: %v", number, took)
		}
		if want == "" && err == nil || want != "" && (err != nil || !strings.HasPrefix(string(doc.Body), `[{"id":`+want+`,`)) {
			t.Errorf("%.20s…: %.60s, %.200v", number, doc.Body, err)
		}
	}
}
