package openapi

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vitrine/upstream/shape"
)

// inShape holds a document against the schema of its route's answer.
func inShape(t *testing.T, r shape.Resource, body []byte) error {
	t.Helper()
	i := slices.IndexFunc(publicRoutes, func(route described) bool { return route.resource == r })
	return validate(t, "/paths/"+escaped(publicRoutes[i].path)+"/get/responses/200"+jsonContent, body)
}

// goldens are all documents that vitrine is known to answer with: its sample, what it makes of the
// inputs that are kept for normalizing, and of every recorded answer of a CMS.
func goldens(t *testing.T) map[string]map[shape.Resource][]byte {
	t.Helper()
	all := map[string]map[shape.Resource][]byte{"sample": sampleDocuments(t)}
	put := func(name string, r shape.Resource, body []byte) {
		if all[name] == nil {
			all[name] = map[shape.Resource][]byte{}
		}
		all[name][r] = body
	}
	for _, r := range shape.Resources() {
		for _, kind := range []string{".json", ".indent2.json"} {
			body, err := os.ReadFile(filepath.Join("../../upstream/shape/testdata/golden", string(r)+kind))
			if err != nil {
				t.Fatal(err)
			}
			put("golden"+kind, r, body)
		}
	}
	for prefix, r := range map[string]shape.Resource{"gvapp": shape.Catalogue, "rules": shape.Rules, "singlebanner": shape.Banners, "ordering": shape.Banners} {
		for _, pattern := range []string{prefix + "*.http", "edge-" + prefix + "*.http"} {
			files, err := filepath.Glob(filepath.Join("../testdata/django-rest-framework", pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				// Errors, pages and descriptions are no documents, and HEAD has none.
				if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != "" {
					continue
				}
				if d, err := shape.Normalize(r, body); err == nil {
					put(filepath.Base(file), r, d.Body)
				}
			}
		}
	}
	return all
}

func TestEveryGoldenAnswerIsInShape(t *testing.T) {
	n := 0
	for name, documents := range goldens(t) {
		for r, body := range documents {
			n++
			if err := inShape(t, r, body); err != nil {
				t.Errorf("%s of %s: %v", r, name, err)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d documents: the recorded ones were not found", n)
	}
}

// TestTheSchemasRefuseWhatIsOutOfShape: without this, the one above might say nothing.
func TestTheSchemasRefuseWhatIsOutOfShape(t *testing.T) {
	good := sampleDocuments(t)
	for name, tc := range map[string]struct {
		resource shape.Resource
		old, by  string
	}{
		"text for a number":        {shape.Banners, `"id":`, `"id":"1","was":`},
		"a field too many":         {shape.Banners, `"title_en":`, `"more":1,"title_en":`},
		"a field too few":          {shape.Banners, `"title_en":`, `"title_xx":`},
		"null for text":            {shape.Catalogue, `"name":"`, `"name":null,"was":"`},
		"another kind of time":     {shape.Rules, `Z","updated_at"`, `+00:00","updated_at"`},
		"null for a list":          {shape.Catalogue, `"artwork":[`, `"artwork":null,"was":[`},
		"a number for a boolean":   {shape.Catalogue, `"visible":true`, `"visible":1`},
		"no list where one is":     {shape.Rules, `"exlude_pages":[`, `"exlude_pages":null,"was":[`},
		"a broken nested document": {shape.Catalogue, `"city":{"id":`, `"city":{"id":null,"was":`},
	} {
		broken := bytes.Replace(good[tc.resource], []byte(tc.old), []byte(tc.by), 1)
		if bytes.Equal(broken, good[tc.resource]) {
			t.Errorf("%s: the sample has no %s", name, tc.old)
			continue
		}
		if err := inShape(t, tc.resource, broken); err == nil {
			t.Errorf("%s is in shape", name)
		}
	}
	if err := inShape(t, shape.Catalogue, []byte(`[]`)); err == nil {
		t.Error("a list is a catalogue")
	}
}
