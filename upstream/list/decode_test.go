package list

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"vitrine/upstream/shape"
)

func parse(t *testing.T, text string) (Resource, error) {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	var o Resource
	err := o.Parse(shape.Catalogue, document.Content[0])
	return o, err
}

func TestPartsAreReadFromYAML(t *testing.T) {
	got, err := parse(t, `
- name: artist # a comment
  path: api/artists?lang=nl
  query: {populate: '*', tag: [general, home]}
  headers: {X-Site: nl}
  paging: {style: page, param: p, size_param: n, size: 50, first: 0, max_pages: 9, walks: 2, hosts: [cms.example], confirm: true}
  map: |
    rename({"naam": "name"})
    | .visible = true
- name: gallery
  path: api/galleries
  items: .rows
  ids: document
  paging: {hosts: one.example, style: }
- name: artwork
  body: {query: "{ artworks }", variables: {n: 3}}
  detail: {path: 'items/{id}', most: 9}
- body: plain text
`)
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	want := []Part{
		{
			Name: "artist", Path: "api/artists?lang=nl",
			Query:   url.Values{"populate": {"*"}, "tag": {"general", "home"}},
			Headers: map[string]string{"X-Site": "nl"},
			Paging: Paging{
				Style: "page", Param: "p", SizeParam: "n", Size: 50, First: &first,
				MaxPages: 9, Walks: 2, Hosts: []string{"cms.example"}, Confirm: true,
			},
			Map: "rename({\"naam\": \"name\"})\n| .visible = true\n",
		},
		{Name: "gallery", Path: "api/galleries", Items: ".rows", IDs: "document", Paging: Paging{Hosts: []string{"one.example"}}},
		{
			Name: "artwork", Body: Body{Value: map[string]any{"query": "{ artworks }", "variables": map[string]any{"n": 3}}},
			Detail: &Detail{Path: "items/{id}", Most: 9},
		},
		{Body: Body{Text: "plain text"}},
	}
	if diff := cmp.Diff(want, got.Parts); diff != "" {
		t.Error(diff)
	}
}

const partKeys = "name, path, query, headers, url, authorization, login, body, accept_types, detail, paging, items, id, ids, map"

func TestMistakesInYAMLAreNamedByKeyAndLine(t *testing.T) {
	for _, c := range []struct {
		text, key string
		line      int
		problem   string
	}{
		{"api/artists", "parts", 1, "want a list of parts, got a single value"},
		{"[]", "parts", 1, "want a list of parts, got an empty list"},
		{"[api/artists]", "parts[0]", 1, "want a part (" + partKeys + "), got a single value"},
		{"- name: artist\n  querry: {a: b}", "parts[0].querry", 2, "no such setting; known here are " + partKeys},
		{"- name: a\n  name: b", "parts[0].name", 2, "want it once, got it again"},
		{"- name: ' '", "parts[0].name", 1, `want a text, got " "`},
		{"- {}\n- paging:\n    size: all", "parts[1].paging.size", 3, `want a whole number from 1 to 100000, got "all"`},
		{"- paging: {first: 2}", "parts[0].paging.first", 1, `want a whole number from 0 to 1, got "2"`},
		{"- paging: {style: scroll}", "parts[0].paging.style", 1, `want none, page, offset, link, cursor or header, got "scroll"`},
		{"- paging: {confirm: perhaps}", "parts[0].paging.confirm", 1, `want true or false, got "perhaps"`},
		{"- query: a=b", "parts[0].query", 1, "want names and their values, got a single value"},
		{"- headers: {X-A: [b]}", "parts[0].headers.X-A", 1, "want a text, got a list"},
		{"- paging: {hosts: {a: b}}", "parts[0].paging.hosts", 1, "want a list, got a mapping"},
		{"- paging: none", "parts[0].paging", 1, "want a paging (style, param, size_param, size, first, total, total_header, next, hosts, max_pages, max_items, walks, confirm), got a single value"},
	} {
		_, err := parse(t, c.text)
		wrong, ok := errors.AsType[*Error](err)
		if !ok || wrong.Key != c.key || wrong.Line != c.line || wrong.Err.Error() != c.problem {
			t.Errorf("%s\ngot  %+v\nwant %s, line %d: %s", c.text, err, c.key, c.line, c.problem)
		}
	}
}
