package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/upstream/sanitize"
)

var update = flag.Bool("update", false, "rewrite the list in docs/configuration.md")

// everything sets every setting to something else than its default, but for those that hold a secret.
const everything = `
listen: 127.0.0.1:1
admin: {listen: ""}
upstream:
  url: https://cms.example/base
  timeout: 1m30s
  retries: 0
  max_bytes: 1234567
  resources:
    catalogue: {path: a}
    rules: {path: "b c/"}
    banners: {path: "yes"}
redis:
  url: unix:///run/redis.sock
  prefix: "{shop}#:"
ttl: {default: 10ms, catalogue: 1h, rules: 8760h, banners: 1h30m}
stale_while_revalidate: 0s
stale_if_error: 1h0m1s
http: {max_age: 5m}
cors: {origins: [https://a.example, "http://b.example:8080"]}
log: {level: debug, format: json}
shutdown: {delay: 1s, timeout: 20s}
`

// Whatever a file holds, it is understood, or refused in short lines that a terminal only shows, and
// what was understood is printed so that it is understood again.
func FuzzAFileIsUnderstoodOrRefused(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "invalid", "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds:", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		testkit.Must(f, err)
		f.Add(content)
	}
	f.Add([]byte(everything))
	f.Add([]byte(banners("- name: artist # a comment\n  map: |\n    .a\n    | .b\n  query: {a: '*', b: [c, d], c: ~}\n  paging: {total: ~}\n  body: {list: [~], none: null}")))
	f.Add([]byte("ttl: &t {default: 1s}\nupstream: &u {resources: *u, url: file:.}\nredis: {url: unix:///a@b, prefix: 'a@b'}\n"))
	f.Add([]byte("upstream:\n resources:\n  banners:\n   parts: 0"))
	f.Add([]byte("listen: :1\nadmin.listen: :2\ncors: {origins: [a://b]}\nupstream: {max_bytes: 1e3}\n"))
	f.Add(fmt.Appendf(nil, "ttl: '${env:%[1]s}'\nproxies: {trusted: %[1]s}\nhook: {match: {rules: %[1]s}}\n"+
		"notify: [{name: a, url: 'http://a', method: POST, events: [%[1]s]}]\nupstream: {resources: {banners: {path: a, paging: {style: %[1]s}}}}\n"+
		"%[2]s: 1\n", strings.Repeat("x", 10_000), `"\e[2J\n"`))
	file := filepath.Join(f.TempDir(), "vitrine.yaml")
	read := func(t *testing.T, content []byte) (config.Config, error) {
		testkit.Must(t, os.WriteFile(file, content, 0o600))
		return config.Load(config.Sources{File: file})
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		first, err := read(t, content)
		if err != nil {
			if !errors.Is(err, config.ErrInvalid) {
				t.Fatalf("an error of another kind: %v", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if sanitize.Clip(line, 2000) != line || len(line) > 2000 || !strings.Contains(line, "): ") {
					t.Fatalf("%d bytes: %.2000q", len(line), line)
				}
			}
			return
		}
		if first.Upstream.Authorization.Reveal() != "" || first.Redis.URL.Reveal() != first.Redis.URL.String() || first.Admin.Token.Reveal() != "" || first.Hook.Secret.Reveal() != "" {
			return // secrets are not printed
		}
		second, err := read(t, first.YAML())
		if err != nil {
			t.Fatalf("%s\nis refused: %v", first.YAML(), err)
		}
		if diff := cmp.Diff(first, second, cmpopts.IgnoreUnexported(config.Config{})); diff != "" || bytes.Contains(first.YAML(), []byte("a comment")) {
			t.Fatalf("%s\nread back differs:\n%s", first.YAML(), diff)
		}
	})
}

const (
	listBegins = "<!-- settings:begin: made from config/config.go by `go test ./config -update` -->\n"
	listEnds   = "<!-- settings:end -->\n"
)

// forms are the settings whose meaning leaves out the form of their values. Ranges are in the error
// that refuses a value.
var forms = map[string]bool{"listen": true, "redis.url": true, "redis.prefix": true, "proxies.trusted": true, "log.level": true}

// markdown is the list of all settings for the documentation, with one line for the three
// resources.
func markdown() string {
	var out strings.Builder
	for _, s := range config.Settings() {
		resource := s.Key[strings.LastIndexByte(s.Key, '.')+1:]
		if resource == "rules" || resource == "banners" {
			continue
		}
		fmt.Fprintf(&out, "- `%s`", s.Key)
		if resource == "catalogue" {
			out.WriteString(", `.rules`, `.banners`")
		}
		if s.Env != "" {
			fmt.Fprintf(&out, ", `%s`", s.Env)
		}
		switch {
		case s.Inherits != "":
			fmt.Fprintf(&out, " (as `%s`)", s.Inherits)
		case s.Default != "":
			fmt.Fprintf(&out, " (`%s`)", s.Default)
		}
		out.WriteString(": " + strings.ReplaceAll(s.Doc, "`catalogue`", "the resource"))
		if forms[s.Key] {
			out.WriteString("; " + strings.ReplaceAll(s.Allowed(), "*", `\*`))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// The page on configuration has the list between two marks.
func TestTheDocumentedSettingsAreTheSettings(t *testing.T) {
	page := filepath.Join("..", "docs", "configuration.md")
	content, err := os.ReadFile(page)
	testkit.Must(t, err)
	before, rest, marked := strings.Cut(string(content), listBegins)
	list, after, ended := strings.Cut(rest, listEnds)
	if !marked || !ended {
		t.Fatalf("%s has no list between %q and %q", page, listBegins, listEnds)
	}
	if list == markdown() {
		return
	}
	if !*update {
		t.Fatalf("%s does not match config/config.go; run go test ./config -update\n%s", page, cmp.Diff(list, markdown()))
	}
	testkit.Must(t, os.WriteFile(page, []byte(before+listBegins+markdown()+listEnds+after), 0o644))
}

// A secret is passed on as its file alone, and the replicas have the settings of the service vitrine.
func TestTheComposeFilesPassOnSettings(t *testing.T) {
	known := map[string]bool{"VITRINE_CONFIG": true}
	for _, s := range config.Settings() {
		known[s.Env] = true
	}
	var passed [][]string
	for _, file := range []string{"../docker-compose.yml", "../docs/deploy/compose/replicas.yml"} {
		compose, err := os.ReadFile(file)
		testkit.Must(t, err)
		_, environment, _ := strings.Cut(string(compose), "environment: [")
		environment, _, _ = strings.Cut(environment, "\n    ]")
		var settings []string
		for _, line := range strings.Split(environment, "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				settings = append(settings, strings.TrimSpace(line))
			}
		}
		passed = append(passed, settings)
		for _, name := range regexp.MustCompile(`\bVITRINE_[A-Z_]+\b`).FindAllString(environment, -1) {
			if !known[name] || known[name+"_FILE"] && name != "VITRINE_REDIS_URL" {
				t.Errorf("%s passes on %s: not a setting, or a secret", file, name)
			}
		}
	}
	if diff := cmp.Diff(passed[0], passed[1]); diff != "" || len(passed[0]) < 10 {
		t.Errorf("the replicas have other settings:\n%s", diff)
	}
}

func TestTheComposeFileHasNoDefaultSecret(t *testing.T) {
	for _, name := range []string{"docker-compose.yml", ".env.example"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		testkit.Must(t, err)
		if set := regexp.MustCompile(`(?m)^[^#\n]*(TOKEN|SECRET|PASSWORD|AUTHORIZATION)[:=][ \t]*\S.*$`).FindAllString(string(text), -1); set != nil {
			t.Errorf("%s has %q", name, set)
		}
	}
}

func TestEverySettingIsDocumentedAndReachable(t *testing.T) {
	seen := map[string]string{}
	for _, s := range config.Settings() {
		if s.Doc == "" || s.Allowed() == "" {
			t.Errorf("%s says nothing of itself: %+v", s.Key, s)
		}
		if isSecret := regexp.MustCompile("_(AUTHORIZATION|TOKEN|SECRET)$").MatchString(s.Env); isSecret && s.Flag != "" {
			t.Errorf("%s has the flag --%s, which other users of the machine see", s.Key, s.Flag)
		}
		for _, name := range []string{s.Key, s.Env, s.Flag} {
			if other, taken := seen[name]; taken && name != "" && other != s.Key {
				t.Errorf("%s names both %s and %s", name, other, s.Key)
			}
			seen[name] = s.Key
		}
	}
}
