// Package fourth builds vitrine with one more document, to count the places that know the
// documents.
package fourth

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// A place is a run of lines that a further document adds to a file, after the only occurrence of
// some text; or a file of its own, if there is no such text.
type place struct{ file, after, add string }

// places are all that a document takes that is a list of items with an id and a title, the pages of
// the documentation apart.
var places = []place{
	{"upstream/shape/shape.go", "read: array(banner.read), sortable: true, of: banner},\n", `
	{name: "exhibitions", route: "/cms/exhibitions/", title: "Exhibition List", read: array(exhibition.read), of: exhibition},
`},
	{"upstream/shape/schema.go", `boolean.named("language_en", "language_nl", "language_fr"), timestamp.named("created_at", "updated_at"))`, `
	exhibition = tableOf("Exhibition", id.named("id"), text.named("title"))`},
	{"upstream/shape/schema.go", "pageRule, page, banner", ", exhibition"},
	{"upstream/sample/exhibitions.json", "", `[{"id": 7, "title": "Licht en lucht"}]`},
	{"upstream/presets/drf.yaml", "parts: [{path: gvapp/singlebanner}]\n", "  exhibitions:\n    parts: [{path: cms/exhibitions/}]\n"},
	{"proxy/app.go", "redirect(\"/gvapp/singlebanner\"))\n", `
	app.All("/cms/exhibitions/", s.document("exhibitions"))
	app.All("/cms/exhibitions", redirect("/cms/exhibitions/"))
`},
	{"proxy/openapi/openapi.json", "\"paths\": {\n", `"/cms/exhibitions/": {"get": {"responses": {"200": {"description": "the exhibitions"}}}},`},
	{"config/config.go", "`yaml:\"banners\"`\n", "Exhibitions T `yaml:\"exhibitions\"`\n"},
}

func TestAFurtherDocumentTakesAtMostEightPlaces(t *testing.T) {
	if len(places) > 8 {
		t.Errorf("it takes %d", len(places))
	}
	var changes []harness.Change
	for _, p := range places {
		changes = append(changes, harness.Change{File: filepath.Join(harness.Root, p.file), From: p.after, To: p.after + p.add})
	}
	t.Setenv("PATH", filepath.Dir(harness.BuildChanged(t, changes...))+string(os.PathListSeparator)+os.Getenv("PATH"))
	served := harness.Serve(t, "VITRINE_TTL_EXHIBITIONS=10m")
	for _, want := range []struct{ url, text string }{
		{served.Public + "/cms/exhibitions/", `[{"id":7,"title":"Licht en lucht"}]`},
		{served.Public + "/cms/exhibitions", `[{"id":7,"title":"Licht en lucht"}]`}, // redirected
		{served.Public + "/cms/rules/", `"page_rules":`},                            // the others are as they were
		{served.Operator + "/metrics", `resource="exhibitions"`},
		{served.Operator + "/api/status", `"exhibitions":`},
		{served.Operator + "/openapi.json", `"/cms/exhibitions/":`},
	} {
		status, _, body, err := harness.Get(http.DefaultClient, "http://"+want.url)
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), want.text) {
			t.Errorf("%s: %v, status %d, want %s in\n%s", want.url, err, status, want.text, body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+served.Public+"/cms/exhibitions/", nil)
	testkit.Must(t, err)
	response, err := http.DefaultClient.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	var description struct{ Name string }
	if err := json.NewDecoder(response.Body).Decode(&description); err != nil || description.Name != "Exhibition List" {
		t.Errorf("%v, %+v", err, description)
	}
}
