package shape

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	doc, err := Normalize(Catalogue, in)
	runtime.ReadMemStats(&after)
	testkit.Must(t, err)
	if !bytes.Equal(doc.Body, in) {
		t.Error("a documented catalogue was changed")
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 5*uint64(len(in)) {
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
