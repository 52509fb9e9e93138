package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// FuzzMapAndNormalize: whatever a CMS answers, and whichever preset and programs work on it, what
// comes out is a document that normalizing finds nothing to repair in but what it cannot, or an
// error that names a path in the resource; never a panic, never part of a document.
func FuzzMapAndNormalize(f *testing.F) {
	programs := []string{"", ".", "rename({\"naam\": \"name\"})", ".tag |= map(ascii_downcase)", "., .", "empty", "{id, title: (.name // .title)}", ".id |= tostring"}
	for i, name := range []string{
		"strapi5/galleries-populate-deep3", "strapi5/rules-populate-deep", "strapi4/galleries-populate-deep3", "strapi4/rules-populate-deep",
		"strapi5/artists-status-draft", "strapi4/banners-list", "directus/galleries-list-fields4", "directus/rules-list-fields3",
		"directus/banners-list", "wordpress/artists-list", "wordpress/galleries-list", "wordpress/banners-list",
		"drf/paged-singlebanner-page1", "drf/paged-gvapp-not-paginated", "gvapp-get", "edge-rules", "edge-singlebanner",
	} {
		_, body, _ := bytes.Cut(upstreamtest.Recording(f, name), []byte("\r\n\r\n"))
		f.Add(body, uint8(i), uint8(i), uint8(i))
	}
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `[{}]`, `{"data":null}`, `{"data":[{"id":1,"attributes":null}]}`, `{"data":[null,1,"x",[[]]]}`,
		`{"results":[{"id":1}],"next":1}`, `{"results":{},"next":null}`, `{"results":[],"next":null,"count":-1}`, `[{"id":1e400,"tag":{"data":[]}}]`,
		"[{\"id\":\"\xff\"}]", `{"data":[{"id":1,"documentId":"` + strings.Repeat("[", 99) + `"}]}`, strings.Repeat("[", 20000),
		`[{"id":1,"title":{"rendered":"&#0;&#x110000;<p"},"meta":{"meta":1}}]`, `{"meta":{"filter_count":"x"},"data":[]}`,
	} {
		f.Add([]byte(body), uint8(3), uint8(1), uint8(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, preset, resource, program uint8) {
		r := shape.Resources()[int(resource)%3]
		names := []string{"drf", "strapi4", "strapi5", "directus", "wordpress", "custom"}
		o := options{Options: Options{URL: "http://cms", MaxBytes: 1 << 20, Resources: map[shape.Resource]source.Resource{}}, Preset: names[int(preset)%len(names)]}
		for _, one := range shape.Resources() {
			part := source.Part{Path: "x", Map: programs[int(program)%len(programs)]}
			if one == shape.Catalogue && program%2 == 1 {
				part.Name = []string{"artist", "artwork", "gallery"}[int(program/2)%3]
			}
			o.Resources[one] = source.Resource{Parts: []source.Part{part}}
		}
		o.Transport = jsonCMS(func(req *http.Request) (int, string) {
			if n, _ := strconv.Atoi(req.URL.Query().Get("page")); n > 3 {
				return http.StatusNotFound, string(body)
			}
			return http.StatusOK, string(body)
		})
		client, err := New(o.complete(t))
		testkit.Must(t, err)
		got, err := client.Fetch(t.Context(), r, Held{})
		if err == nil {
			checkDocument(t, r, got.Document.Body)
			return
		}
		if !strings.Contains(err.Error(), string(r)) || len(err.Error()) > 1000 {
			t.Errorf("an error without a path, or a long one: %v", err)
		}
	})
}

// checkDocument holds body to what is documented: JSON that normalizes to itself.
func checkDocument(t *testing.T, r shape.Resource, body []byte) {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("not JSON: %q", body)
	}
	again, err := shape.Normalize(r, body)
	if err != nil || !bytes.Equal(again.Body, body) {
		t.Errorf("normalizes to something else (%v):\n%s\n%s", err, body, again.Body)
	}
}
