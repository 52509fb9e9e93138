package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
	file := write(t, `
upstream:
  shared:
    headers: {X-Api-Key: '${KEY}'}
  resources:
    catalogue:
      parts:
        - name: artist # a comment
          path: api/artists?lang=${LANG}
          query: {populate: '*', tag: [general, home], id: '${TENANT}'}
          paging: {style: page, param: p, size_param: n, size: 50, first: 0, max_pages: 9, walks: 2, hosts: [cms.example]}
          map: |
            rename({"naam": "${NOT_REPLACED}"})
        - headers: {X-Site: nl}
          name: gallery
          path: api/galleries
          paging: {hosts: one.example, style: }
        - name: artwork
          body: {query: "{ artworks }", variables: {n: 3, id: '${TENANT}', map: '${TENANT}'}}
      map: '{artist, gallery, artwork: []}'
    rules: {path: 'rules?all=1', empty: false}
    banners: {parts: [{body: plain text}], empty: true}
`)
	u := load(t, config.Sources{File: file, Environ: []string{"TENANT=hunter2", "LANG=fr", "KEY=hunter1"}}).Upstream
	first := 0
	want := []source.Part{
		{
			Name: "artist", Path: "api/artists?lang=fr",
			Query:  url.Values{"populate": {"*"}, "tag": {"general", "home"}, "id": {"hunter2"}},
			Paging: source.Paging{Style: "page", Param: "p", SizeParam: "n", Size: 50, First: &first, MaxPages: 9, Walks: 2, Hosts: []string{"cms.example"}},
			Map:    "rename({\"naam\": \"${NOT_REPLACED}\"})\n",
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
	if u.Shared.Headers["X-Api-Key"] != "hunter1" || !cmp.Equal(u.Shared.Secrets, source.Secrets{"hunter1", "hunter1", "fr", "hunter2", "nl", "hunter2", "hunter2"}) {
		t.Errorf("headers %v, secrets %v", u.Shared.Headers, u.Shared.Secrets)
	}
}

func TestAMistakeFoundLaterIsPlacedInTheFile(t *testing.T) {
	file := write(t, banners("- path: a\n  map: |\n    .a\n    | .b\n- {}\n"))
	c := load(t, config.Sources{File: file})
	for want, err := range map[string]error{
		"upstream.resources.banners.parts[0].map (" + file + ":8): bad":  c.RefuseBelow("upstream.resources.banners.parts[0].map", 2, errors.New("bad")),
		"upstream.resources.banners.parts[1].path (" + file + ":9): bad": c.RefuseBelow("upstream.resources.banners.parts[1].path", 0, errors.New("bad")),
		"upstream.resources.rules.parts (preset drf:14): bad":            c.RefuseBelow("upstream.resources.rules.parts", 0, errors.New("bad")),
	} {
		if err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for key, want := range map[string]string{
		"upstream.resources.banners.parts[0].map": file + ":7", "upstream.resources.banners.parts[1].path": file + ":9", "upstream.resources.rules.parts[0].path": "preset drf:14",
	} {
		if got := c.Place(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
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
      map: .
    rules: {empty: true}
`,
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file := filepath.Join(dir, "vitrine.yaml")
	before := load(t, config.Sources{File: file})
	want := config.ByResource[source.Resource]{
		Catalogue: source.Resource{Parts: []source.Part{{Name: "gallery", Path: "preset-galleries", Map: ".two", Paging: source.Paging{Style: "link"}}, {Name: "other", Path: "p"}}, Map: "."},
		Rules:     source.Resource{Empty: true},
		Banners:   source.Resource{Parts: []source.Part{{Path: "mine", Query: url.Values{"populate": {"*"}, "sort": {"id"}}, Paging: source.Paging{Style: "page", Param: "p", Size: 7}}}},
	}
	if diff := cmp.Diff(want, before.Upstream.Resources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(source.Headers{"X-B": "b"}, before.Upstream.Shared.Headers); diff != "" {
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

// Everything that shows a configuration: the command, the log of a reload, and an error. A secret is
// what is in a setting or a header for secrets, or comes by reference.
func TestSecretsOfTheUpstreamAreShownNowhere(t *testing.T) {
	with := func(secret string) config.Config {
		return load(t, config.Sources{Environ: []string{
			"VITRINE_UPSTREAM_URL=https://cms/?api_key=" + secret, "VITRINE_ADMIN_TOKEN=" + secret + secret, "REFERRED=" + secret,
		}, File: write(t, `
hook: {secret: 'xx${REFERRED}${REFERRED}'}
upstream:
  authorization: `+secret+`
  shared:
    query: {pw: '${REFERRED}', keyword: art}
    headers: {X-Auth: `+secret+`, X-Key: 'part ${REFERRED}', X-Whole: '${REFERRED}'}
    media: https://cms/?token=${REFERRED}
  resources:
    rules: {path: 'rules?lang=nl&api_key=${REFERRED}'}
    banners:
      parts:
        - path: list?access_token=${REFERRED}
          query: {api_key: [a, '${REFERRED}'], price: '$${5}'}
          headers: {X-Auth: `+secret+`, X-Key: 'quoted''`+secret+`'}
          body: {nested: {password: '${REFERRED}', n: 2.0}}
`)})
	}
	old, c := with("hunter2"), with("hunter3")
	if old.Fingerprint() != c.Fingerprint() {
		t.Error("a secret is in the fingerprint")
	}
	printed := string(c.YAML())
	shown := printed + c.Refuse("upstream.url", errors.New("a query is not allowed")).Error() + fmt.Sprintf("%v %+v", c.Upstream.URL, c.Upstream.Shared.Headers)
	for _, change := range c.Changes(old) {
		shown += change.From + change.To
	}
	for _, want := range []string{"pw: ${REFERRED}", "- art", "X-Auth: '***'", "X-Key: '***'", "X-Whole: ${REFERRED}", "path: rules?lang=nl&api_key=${REFERRED}", "- ${REFERRED}", "$${5}", `"n": 2.0`} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if strings.Contains(shown, "hunter") || t.Failed() {
		t.Errorf("shown\n%s", shown)
	}
	if _, err := config.Load(config.Sources{File: write(t, printed), Environ: []string{"REFERRED=hunter2"}}); err == nil || strings.Contains(err.Error(), "hunter") ||
		strings.Count(err.Error(), "*** stands for a secret") != strings.Count(err.Error(), "\n")+1 {
		t.Errorf("masked, it is a file: %v", err)
	}
	for range 20 {
		if changes := with("hunter3").Changes(c); len(changes) > 0 {
			t.Fatalf("loaded again, it differs: %+v", changes)
		}
	}
	if n := len(c.Changes(old)); n != 7 {
		t.Errorf("%d changes: %+v", n, c.Changes(old))
	}
}
