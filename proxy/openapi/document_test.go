package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

var update = flag.Bool("update", false, "write openapi.json from what it is made of")

// TestTheDocumentIsMadeFromTheTypes makes it anew and wants the file.
func TestTheDocumentIsMadeFromTheTypes(t *testing.T) {
	text, err := marshal(describe())
	if err != nil {
		t.Fatal(err)
	}
	var made bytes.Buffer
	if err := json.Indent(&made, []byte(text), "", "  "); err != nil {
		t.Fatal(err)
	}
	made.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", made.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(made.Bytes(), Document()) {
		t.Error("openapi.json is not what upstream/shape and this test make of it; run go test ./proxy/openapi -update")
	}
}

// A described route.
type described struct {
	path, id, name, doc string
	resource            shape.Resource
	schema              object
	orderable           bool
}

var publicRoutes = []described{
	{
		path: "/gvapp/", id: "Catalogue", name: "the catalogue", resource: shape.Catalogue,
		doc: "A few artists, artworks and galleries.", schema: ref("schemas", "Catalogue"),
	},
	{
		path: "/cms/rules/", id: "Rules", name: "the display rules", resource: shape.Rules,
		doc:    "How background images and prompts are shown on front-end pages.",
		schema: object{{"type", "array"}, {"items", ref("schemas", "RuleSet")}},
	},
	{
		path: "/gvapp/singlebanner", id: "Banners", name: "the banners", resource: shape.Banners,
		doc:    "Promotions in three languages, in the CMS's order unless ordering is given.",
		schema: object{{"type", "array"}, {"items", ref("schemas", "Banner")}}, orderable: true,
	},
}

// describe makes the whole document.
func describe() object {
	var paths object
	for _, r := range publicRoutes {
		paths = append(paths, member{r.path, r.describe()})
	}
	return object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Gallery catalogue"},
			{"summary", "A gallery's catalogue, display rules and banners, read-only."},
			{"description", "Three documents as JSON, served by vitrine in front of the CMS that holds them. Query " +
				"parameters that are not listed are ignored. A path without its trailing slash, or banners with one, is " +
				"redirected to the right one (301). Any other method is 405."},
			{"license", object{{"name", "MIT"}, {"identifier", "MIT"}}},
			{"version", "1"},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"security", []object{}},
		{"tags", []object{{{"name", "content"}}}},
		{"paths", paths},
		{"components", object{
			{"parameters", parameters()},
			{"headers", headers()},
			{"responses", responses()},
			{"schemas", schemas()},
		}},
	}
}

// describe is the path item of a route.
func (r described) describe() object {
	parameters := []object{ref("parameters", "format")}
	if r.orderable {
		parameters = append(parameters, ref("parameters", "ordering"))
	}
	conditions := []object{
		ref("parameters", "If-None-Match"), ref("parameters", "If-Modified-Since"),
		ref("parameters", "If-Match"), ref("parameters", "If-Unmodified-Since"),
	}
	found := object{{"description", r.doc}, {"headers", refs("headers", foundHeaders)}}
	return object{
		{"parameters", parameters},
		{"get", operation("get"+r.id, "Get "+r.name, conditions,
			append(found[:2:2], member{"content", contentOf(r.schema, example(r.resource))}), "200", "304", "404", "406", "412", "500", "502", "503", "504")},
		{"head", bodyless(operation("head"+r.id, "Get the headers of "+r.name, conditions,
			found, "200", "304", "404", "406", "412", "500", "502", "503", "504"))},
		{"options", operation("describe"+r.id, "Describe "+r.name, nil,
			object{
				{"description", "The name, description, renderers and parsers of the route."},
				{"headers", refs("headers", []string{"Allow", "Vary"})},
				{"content", contentOf(ref("schemas", "Description"), object{
					{"name", r.id}, {"description", ""}, {"renders", []string{"application/json", "text/html"}}, {"parses", []string{"application/json"}},
				})},
			}, "200", "204", "404", "406")},
	}
}

// operation describes one method: its own 200, and shared answers for the other statuses.
func operation(id, summary string, parameters []object, found object, statuses ...string) object {
	o := object{{"operationId", id}, {"summary", summary}, {"tags", []string{"content"}}}
	if len(parameters) > 0 {
		o = append(o, member{"parameters", parameters})
	}
	var all object
	for _, status := range statuses {
		if status == "200" {
			all = append(all, member{status, found})
		} else {
			all = append(all, member{status, ref("responses", responseNames[status])})
		}
	}
	return append(o, member{"responses", all})
}

func contentOf(schema object, example any) object {
	return object{{"application/json", object{{"schema", schema}, {"example", example}}}}
}

// bodyless replaces the shared answers of an operation by the same without a body, as HEAD has
// them.
func bodyless(operation object) object {
	shared := map[string]object{}
	for _, r := range responses() {
		shared["#/components/responses/"+r.name] = r.value.(object)
	}
	all := operation[len(operation)-1].value.(object)
	for i, r := range all {
		if at, ok := r.value.(object)[0].value.(string); ok && shared[at] != nil {
			all[i].value = slices.DeleteFunc(shared[at], func(m member) bool { return m.name == "content" })
		}
	}
	return operation
}

// example is the sample's document with the first item of each list, as vitrine serves it.
func example(r shape.Resource) any {
	raw, err := sample.FS.ReadFile(string(r) + ".json")
	if err != nil {
		panic(err)
	}
	d, err := shape.Normalize(r, raw)
	if err != nil {
		panic(err)
	}
	if r != shape.Catalogue {
		return first(d.Body)
	}
	lists := map[string]json.RawMessage{}
	if err := json.Unmarshal(d.Body, &lists); err != nil {
		panic(err)
	}
	return object{{"artist", first(lists["artist"])}, {"artwork", first(lists["artwork"])}, {"gallery", first(lists["gallery"])}}
}

func first(list json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		panic(err)
	}
	return items[:1]
}

func refs(kind string, names []string) object {
	var all object
	for _, name := range names {
		all = append(all, member{name, ref(kind, name)})
	}
	return all
}
