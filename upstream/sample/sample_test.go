package sample_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t *testing.T, r shape.Resource) []byte {
	t.Helper()
	body, err := sample.FS.ReadFile(string(r) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestSampleIsInTheDocumentedShapeAlready(t *testing.T) {
	for _, r := range shape.Resources() {
		in := read(t, r)
		doc, err := shape.Normalize(r, in)
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		if n := doc.Repairs.Total(); n != 0 {
			t.Errorf("%s: %d repairs: %v", r, n, doc.Repairs.LogValue())
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, in); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(doc.Body, compact.Bytes()) {
			t.Errorf("%s: normalizing changes more than the blanks", r)
		}
		if doc.Items < 8 {
			t.Errorf("%s: %d items, want a list of a real size", r, doc.Items)
		}
	}
}

func TestSampleShowsEveryFieldWithContent(t *testing.T) {
	filled := map[string]bool{}
	for _, r := range shape.Resources() {
		var doc any
		if err := json.Unmarshal(read(t, r), &doc); err != nil {
			t.Fatal(err)
		}
		mark(filled, string(r), doc)
	}
	for path, ok := range filled {
		if !ok {
			t.Errorf("%s is empty everywhere", path)
		}
	}
	// A field that occurs nowhere is one the first test finds: Normalize would add it.
	if len(filled) < 80 {
		t.Errorf("%d fields seen, want all of sections 2.1 to 2.12", len(filled))
	}
}

// mark notes for every path below value whether it has been seen with content. False counts as
// content where true has been seen too.
func mark(filled map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			mark(filled, path+"."+name, member)
		}
	case []any:
		filled[path] = filled[path] || len(v) > 0
		for _, element := range v {
			mark(filled, path+"[]", element)
		}
	default:
		filled[path] = filled[path] || v != nil && !reflect.ValueOf(v).IsZero()
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
