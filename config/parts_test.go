package config_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/config/source"
)

// banners is a file with these parts of the banners, which begin in line 5.
func banners(parts string) string {
	return "upstream:\n  resources:\n    banners:\n      parts:\n        " + strings.ReplaceAll(parts, "\n", "\n        ") + "\n"
}

func TestPartsAreDecodedWithTheirReferences(t *testing.T) {
	secret := write(t, "hunter1\n")
	file := write(t, `
upstream:
  shared:
    headers: {X-Api-Key: '${file:`+secret+`}'}
  resources:
    catalogue:
      parts:
        - name: artist # a comment
          path: api/artists?lang=${env:LANG}
          query: {populate: '*', tag: [general, home], id: '${env:TENANT}'}
          paging: {style: page, param: p, size_param: n, size: 50, first: 0, max_pages: 9, walks: 2, hosts: [cms.example]}
          map: |
            rename({"naam": "${env:NOT_REPLACED}"})
        - <<: {headers: {X-Site: nl}, path: never}
          name: gallery
          path: api/galleries
          paging: {hosts: one.example, style: }
        - name: artwork
          body: {query: "{ artworks }", variables: {n: 3, id: '${env:TENANT}', map: '${env:TENANT}'}}
      map: '{artist, gallery, artwork: []}'
    rules: {path: 'rules?all=1', empty: false}
    banners: {parts: [{body: plain text}], empty: true}
`)
	u := load(t, config.Sources{File: file, Environ: []string{"TENANT=hunter2", "LANG=fr"}}).Upstream
	first := 0
	want := []source.Part{
		{
			Name: "artist", Path: "api/artists?lang=fr",
			Query:  url.Values{"populate": {"*"}, "tag": {"general", "home"}, "id": {"hunter2"}},
			Paging: source.Paging{Style: "page", Param: "p", SizeParam: "n", Size: 50, First: &first, MaxPages: 9, Walks: 2, Hosts: []string{"cms.example"}},
			Map:    "rename({\"naam\": \"${env:NOT_REPLACED}\"})\n",
		},
		{Name: "gallery", Path: "api/galleries", Headers: map[string]string{"X-Site": "nl"}, Paging: source.Paging{Hosts: []string{"one.example"}}},
		{Name: "artwork", Body: source.Body{Value: map[string]any{"query": "{ artworks }", "variables": map[string]any{"n": json.Number("3"), "id": "hunter2", "map": "hunter2"}}}},
	}
	if diff := cmp.Diff(want, u.Resources.Catalogue.Parts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(source.Resource{Parts: []source.Part{{Path: "rules?all=1"}}}, u.Resources.Rules); diff != "" {
		t.Error(diff)
	}
	if !u.Resources.Banners.Empty || u.Resources.Banners.Parts[0].Body.Text != "plain text" || u.Resources.Catalogue.Map != "{artist, gallery, artwork: []}" {
		t.Errorf("%+v", u.Resources)
	}
	if u.Shared.Headers["X-Api-Key"] != "hunter1" || !cmp.Equal(u.Shared.Secrets, []string{"hunter1", "fr", "hunter2", "hunter2", "hunter2"}) {
		t.Errorf("headers %v, secrets %v", u.Shared.Headers, u.Shared.Secrets)
	}
}

func TestMistakesInPartsAreNamedByKeyAndLine(t *testing.T) {
	for text, want := range map[string]string{
		"api/artists":                         "parts (FILE:5): want a list, got a single value",
		"[]":                                  "parts (FILE:5): want a list, got an empty list",
		"[api/artists]":                       "parts[0] (FILE:5): want a mapping (name, path, ",
		"- name: artist\n  querry: {a: b}":    "parts[0].querry (FILE:6): no such setting; did you mean upstream.resources.banners.parts[0].query?",
		"- name: a\n  name: b":                "parts[0].name (FILE:6): already set on line 5",
		"- name: ' '":                         `parts[0].name (FILE:5): want a text, got " "`,
		"- {}\n- paging:\n    size: all":      `parts[1].paging.size (FILE:7): want a whole number from `,
		"- paging: {first: 2}":                `parts[0].paging.first (FILE:5): want a whole number from 0 to 1, got "2"`,
		"- paging: {style: scroll}":           `parts[0].paging.style (FILE:5): want none, page, offset, link, cursor or header, got "scroll"`,
		"- query: a=b":                        "parts[0].query (FILE:5): want names and their values, got a single value",
		"- headers: {X-A: [b]}":               "parts[0].headers.X-A (FILE:5): want a text, got a list",
		"- paging: {hosts: {a: b}}":           "parts[0].paging.hosts (FILE:5): want a list, got a mapping",
		"- paging: none":                      "parts[0].paging (FILE:5): want a mapping (style, ",
		"- <<: {id: a}\n  <<: {id: b}":        "parts[0].<< (FILE:6): already set on line 5",
		"- headers:\n    [a]: b":              "parts[0].headers (FILE:6): want keys that are texts",
		"- name: &x a\n  headers: {*x : b}":   "parts[0].headers (FILE:6): want keys that are texts",
		"- <<: [a]":                           "parts[0].<< (FILE:5): want a mapping, or a list of them",
		"- query:\n    a: '${env:MISSING_1}'": "parts[0].query.a (FILE:6): want ${env:NAME} or ${file:PATH} of a value, got ${env:MISSING_1}: it is not set",
		"- {}\n      path: p":                 "path (FILE:6): want either this or parts, got both",
	} {
		file := write(t, strings.Replace(banners(text), "\n              path:", "\n      path:", 1))
		_, err := config.Load(config.Sources{File: file})
		want = "upstream.resources.banners." + strings.ReplaceAll(want, "FILE", file)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, config.ErrInvalid) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestAMistakeFoundLaterIsPlacedInTheFile(t *testing.T) {
	c := load(t, config.Sources{File: write(t, banners("- path: a\n  map: |\n    .a\n    | .b\n- {}\n"))})
	file := strings.TrimSuffix(c.Origin("upstream.resources.banners"), ":4")
	for want, err := range map[string]error{
		"upstream.resources.banners.parts[0].map (" + file + ":8): bad":  c.RefuseBelow("upstream.resources.banners.parts[0].map", 2, errors.New("bad")),
		"upstream.resources.banners.parts[1].path (" + file + ":9): bad": c.RefuseBelow("upstream.resources.banners.parts[1].path", 0, errors.New("bad")),
		"upstream.resources.rules.parts (preset drf:14): bad":            c.RefuseBelow("upstream.resources.rules.parts", 0, errors.New("bad")),
	} {
		if err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestAPresetFileIsReadBelowTheOperatorsKeys(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mine.yaml": `
shared: {headers: {X-Site: nl, X-A: a}}
resources:
  banners:
    parts: [{path: preset, query: {populate: '*', sort: id}, paging: {style: page, param: p, size: 7}}]
  catalogue:
    parts: [{name: artist, path: preset-artists, map: .one}, {name: gallery, path: preset-galleries}]
`,
		"vitrine.yaml": `
upstream:
  preset: ./mine.yaml
  shared: {headers: {X-B: b}}
  resources:
    banners: {path: mine}
    catalogue:
      parts: [{name: gallery, paging: {style: link}, map: .two}, {name: other, path: p}]
`,
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file := filepath.Join(dir, "vitrine.yaml")
	before := load(t, config.Sources{File: file})
	want := config.ByResource[source.Resource]{
		Catalogue: source.Resource{Parts: []source.Part{{Name: "gallery", Path: "preset-galleries", Map: ".two", Paging: source.Paging{Style: "link"}}, {Name: "other", Path: "p"}}},
		Banners:   source.Resource{Parts: []source.Part{{Path: "mine", Query: url.Values{"populate": {"*"}, "sort": {"id"}}, Paging: source.Paging{Style: "page", Param: "p", Size: 7}}}},
	}
	if diff := cmp.Diff(want, before.Upstream.Resources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"X-B": "b"}, before.Upstream.Shared.Headers); diff != "" {
		t.Error(diff)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte("resources: {banners: {map: .}}"), 0o600))
	after := load(t, config.Sources{File: file})
	if after.Fingerprint() == before.Fingerprint() || len(after.Changes(before)) == 0 {
		t.Error("a changed preset is not a change")
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte("resources: {banners: {path: changed, mapp: x}}"), 0o600))
	wrong := "upstream.resources.banners.mapp (" + filepath.Join(dir, "mine.yaml") + ":1): no such setting; did you mean upstream.resources.banners.map?"
	if _, err := config.Load(config.Sources{File: file}); err == nil || err.Error() != wrong {
		t.Errorf("got  %v\nwant %s", err, wrong)
	}
}

func TestValuesBelowATreeAreWhatTheyLookLike(t *testing.T) {
	c := load(t, config.Sources{File: write(t, "notify: []\n"+banners("- path: x\n  query: {a: ~, b: null, c: '~', d: }\n  body: {id: 123456789012345678901234567890, rate: 1.0, hex: 0x1f, none: ~, from: 2024-01-01, yes: true, quoted: '1'}"))})
	part := c.Upstream.Resources.Banners.Parts[0]
	if diff := cmp.Diff(url.Values{"a": {""}, "b": {""}, "c": {"~"}, "d": {""}}, part.Query); diff != "" {
		t.Error(diff)
	}
	got, err := json.Marshal(part.Body.Value)
	if want := `{"from":"2024-01-01","hex":31,"id":123456789012345678901234567890,"none":null,"quoted":"1","rate":1.0,"yes":true}`; err != nil || string(got) != want {
		t.Errorf("the body is %s, %v; want %s", got, err, want)
	}
	if len(c.Notify) > 0 {
		t.Errorf("%d targets", len(c.Notify))
	}
}

// Everything that shows a configuration: the command, the log of a reload, and an error.
func TestSecretsOfTheUpstreamAreShownNowhere(t *testing.T) {
	with := func(secret string) config.Config {
		return load(t, config.Sources{Environ: []string{
			"VITRINE_UPSTREAM_URL=https://cms/?api_key=" + secret, "VITRINE_ADMIN_TOKEN=" + secret + secret, "REFERRED=" + secret,
		}, File: write(t, `
hook: {secret: '${env:REFERRED}${env:REFERRED}'}
upstream:
  shared:
    query: {pw: '${env:REFERRED}', key: `+secret+`}
    media: https://cms/?token=`+secret+`
    login: {path: login, body: '{"name": "`+secret+`"}'}
  resources:
    rules: {path: 'rules?lang=nl&api_key=`+secret+`'}
    catalogue: {path: 'catalogue?pw=${env:REFERRED}&key=`+secret+`;b&z=%zz&token=${env:REFERRED}`+secret+`'}
    banners:
      parts:
        - path: list?access_token=`+secret+`
          query: {api_key: [a, `+secret+`], keyword: art}
          headers: {X-Auth: `+secret+`, X-Key: 'quoted''`+secret+`'}
          body: {nested: {password: `+secret+`, pass: `+secret+`, token: !!str `+secret+`, pin_key: 2718`+secret[6:]+`}}
`)})
	}
	old, c := with("hunter2"), with("hunter3")
	if old.Fingerprint() != c.Fingerprint() {
		t.Error("a secret is in the fingerprint")
	}
	printed := string(c.YAML())
	shown := printed + c.Refuse("upstream.url", errors.New("a query is not allowed")).Error()
	for _, change := range c.Changes(old) {
		shown += change.From + change.To
	}
	if strings.Contains(shown, "hunter") || strings.Contains(shown, "2718") || strings.Count(shown, "keyword: art") != 3 || !strings.Contains(printed, "pw: '${env:REFERRED}'") {
		t.Errorf("shown\n%s", shown)
	}
	load(t, config.Sources{File: write(t, printed), Environ: []string{"REFERRED=hunter2"}}) // is still a file
	for range 20 {
		if changes := with("hunter3").Changes(c); len(changes) > 0 {
			t.Fatalf("loaded again, it differs: %+v", changes)
		}
	}
	if n := len(c.Changes(old)); n != 7 {
		t.Errorf("%d changes: %+v", n, c.Changes(old))
	}
}
