package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"vitrine/config"
)

const withParts = `
upstream:
  preset: custom
  resources:
    catalogue:
      parts:
        - name: artist # a comment
          query: {populate: '*', tag: [general, home]}
          map: |
            rename({"naam": "name"})
            | .visible = true
        - name: gallery
          paging: {style: page, first: 0, confirm: true}
      map: '{artist, gallery, artwork: []}'
`

func TestPartsKeepTheLinesOfTheFile(t *testing.T) {
	got := load(t, config.Sources{File: write(t, withParts)}).Upstream.Resources.Catalogue
	if n := got.Parts.Node; n == nil || len(n.Content) != 2 || n.Content[1].Line != 12 {
		t.Errorf("%+v", n)
	}
	if strings.Contains(got.Parts.YAML, "comment") || !strings.Contains(got.Parts.YAML, "name: artist") {
		t.Errorf("%s", got.Parts.YAML)
	}
	if got.Map != "{artist, gallery, artwork: []}" {
		t.Errorf("map %q", got.Map)
	}
}

func TestPrintedPartsMeanTheSameWhenReadBack(t *testing.T) {
	first := load(t, config.Sources{File: write(t, withParts)})
	printed := string(first.YAML())
	second := load(t, config.Sources{File: write(t, printed)})
	if diff := cmp.Diff(first.Upstream, second.Upstream, cmp.AllowUnexported(config.Secret{}), cmpopts.IgnoreFields(config.Parts{}, "Node")); diff != "" {
		t.Errorf("%s\nread back differs:\n%s", printed, diff)
	}
}

func TestPartsWithASecretArePrintedAsCommentsWithoutIt(t *testing.T) {
	file := write(t, `
upstream:
  resources:
    banners:
      parts:
        - path: list?access_token=hunter1
          query: {api_key: hunter2}
          headers: {X-Auth: hunter3, X-Key: 'quoted''hunter4'}
`)
	printed := string(load(t, config.Sources{File: file}).YAML())
	if strings.Contains(printed, "hunter") || !strings.Contains(printed, "#   - path: list?********") {
		t.Errorf("printed\n%s", printed)
	}
	load(t, config.Sources{File: write(t, printed)}) // is still a file
}

func TestAChangeOfPartsShowsNoSecret(t *testing.T) {
	with := func(key string) config.Config {
		return load(t, config.Sources{File: write(t, `
upstream:
  resources:
    banners:
      parts:
        - path: list
          headers: {X-Api-Key: `+key+`}
`)})
	}
	changes := with("hunter3").Changes(with("hunter2"))
	if len(changes) != 1 || !strings.Contains(changes[0].To, "path: list") || strings.Contains(changes[0].From+changes[0].To, "hunter") {
		t.Errorf("%+v", changes)
	}
}

func TestReferencesToSecretsAreReplacedAndNeverPrinted(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := write(t, `
upstream:
  shared:
    headers: {X-Api-Key: '${file:`+secret+`}'}
    login: {token_url: 'https://id.example/token', client_id: me, client_secret: '${env:CLIENT}'}
  resources:
    banners:
      parts:
        - path: list
          query: {access_token: 'Token ${env:TOKEN}', lang: nl}
          map: '"${env:TOKEN}"'
`)
	environ := []string{"TOKEN=hunter2", "CLIENT=hunter3"}
	cfg := load(t, config.Sources{File: file, Environ: environ})
	values := func(n *yaml.Node) string {
		out, err := yaml.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	all := values(cfg.Upstream.Shared.Node) + values(cfg.Upstream.Resources.Banners.Parts.Node)
	for _, want := range []string{"hunter1", "Token hunter2", "hunter3", `"${env:TOKEN}"`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	printed := string(cfg.YAML())
	if strings.Contains(printed, "hunter") || !strings.Contains(printed, "X-Api-Key: '${file:") || !strings.Contains(printed, "token_url: 'https://id.example/token'") {
		t.Errorf("printed\n%s", printed)
	}
	for environ, want := range map[string]string{
		"TOKEN=hunter2": "upstream.shared (" + file + ":5): want ${env:NAME} or ${file:PATH} of a value, got ${env:CLIENT}: it is not set",
		"CLIENT=c":      "upstream.resources.banners.parts (" + file + ":10): want ${env:NAME} or ${file:PATH} of a value, got ${env:TOKEN}: it is not set",
	} {
		_, err := config.Load(config.Sources{File: file, Environ: []string{environ}})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
