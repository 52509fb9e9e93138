package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vitrine/config"
	"vitrine/config/source"
)

func TestTargetsAreTheirPresetsAndWhatTheFileSays(t *testing.T) {
	token := write(t, "hunter1\n")
	c := load(t, config.Sources{File: write(t, `
notify:
  - name: edge
    preset: varnish
    url: http://varnish:80
  - name: cdn
    preset: cloudflare
    zone: 023e
    token_file: `+token+`
  - name: chat
    preset: webhook
    url: https://hooks.example.org/${PATH}
    secret: ${CHAT}
    events: [held, failing, recovered]
  - name: own
    url: http://own
    method: PURGE
    path: /{resource}
    cache: true
`), Environ: []string{"CHAT=hunter2", "PATH=abc"}})
	caches, secrets := []string{"changed", "purged"}, source.Secrets{"abc", "abc", "hunter2", "hunter2"}
	want := config.Targets{
		{Name: "edge", Preset: "varnish", URL: source.NewEndpoint("http://varnish:80"), Events: caches, Method: "BAN", Path: config.NewSecret("/"), Headers: map[string]string{"Cache-Groups": `"{resource}"`}, Cache: true},
		{Name: "cdn", Preset: "cloudflare", URL: source.NewEndpoint("https://api.cloudflare.com"), Events: caches, Zone: "023e", Token: config.NewSecret("hunter1"), TokenFile: token, Method: "POST", Path: config.NewSecret("/client/v4/zones/{zone}/purge_cache"),
			Headers: map[string]string{"Authorization": "Bearer {token}", "Content-Type": "application/json"}, Body: "{tags: [.resource]}", Cache: true, Tags: "Cache-Tag"},
		{Name: "chat", Preset: "webhook", URL: source.NewEndpoint("https://hooks.example.org/abc"), Events: []string{"held", "failing", "recovered"}, Secret: config.NewSecret("hunter2"), Method: "POST",
			Headers: map[string]string{"X-Vitrine-Signature": "sha256={signature}", "Content-Type": "application/json"}, Body: "."},
		{Name: "own", URL: source.NewEndpoint("http://own"), Events: caches, Method: "PURGE", Path: config.NewSecret("/{resource}"), Cache: true},
	}
	if diff := cmp.Diff(want, c.Notify, cmpopts.IgnoreFields(source.Target{}, "Secrets")); diff != "" {
		t.Error(diff)
	}
	for _, target := range c.Notify {
		if diff := cmp.Diff(append(secrets[:4:4], target.Token.Reveal(), target.Secret.Reveal()), target.Secrets, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: %s", target.Name, diff)
		}
	}
	if !c.HasCache() || load(t, config.Sources{}).HasCache() {
		t.Error("HasCache")
	}
	printed := strings.Replace(string(c.YAML()), "example.org/***", "example.org/${PATH}", 1)
	printed = strings.Replace(printed, "path: '***'", "path: /{resource}", 1) // filled in
	again := load(t, config.Sources{File: write(t, printed), Environ: []string{"CHAT=hunter2", "PATH=abc"}})
	if diff := cmp.Diff(c.Notify, again.Notify, cmpopts.IgnoreFields(source.Target{}, "Secrets")); diff != "" || strings.Contains(printed, "hunter") {
		t.Errorf("%s\nread back differs: %s", printed, diff)
	}
}

// TestTheAddressOfATargetIsPrintedUpToItsHost, and no secret of it: what follows is a credential, at most chats.
func TestTheAddressOfATargetIsPrintedUpToItsHost(t *testing.T) {
	environ := []string{"HOST=hooks.example.org", "PART=hunter1"}
	for _, test := range []struct{ url, shown string }{
		{"https://hooks.example.org/services/hunter2", "https://hooks.example.org/***"},
		{"https://hooks.example.org?sig=hunter2", "https://hooks.example.org/***"},
		{"https://hooks.example.org/?key=hunter2", "https://hooks.example.org/***"},
		{"https://${HOST}/hunter2", "https://hooks.example.org/***"},
		{"https://hooks.example.org/hunter2/${PART}", "https://hooks.example.org/***"},
		{"https://hooks.example.org/${PART}", "https://hooks.example.org/***"},
		{"http://varnish:80", "http://varnish:80"},
		{"http://varnish:80/", "http://varnish:80/"},
	} {
		c := load(t, config.Sources{File: write(t, "notify:\n  - {name: own, method: POST, token: hunter3, headers: {X-Api-Key: hunter4}, url: '"+test.url+"'}\n"), Environ: environ})
		printed := string(c.YAML())
		if shown := printed + fmt.Sprintf("%v %+v", c.Changes(config.Config{}), c.Notify); strings.Contains(shown, "hunter") || !strings.Contains(printed, test.shown) {
			t.Errorf("%s: %s", test.url, shown)
		}
	}
	for _, url := range []string{
		"https://app:hunter2@hooks.example.org/hunter3", "https://hunter1@hooks.example.org", "https://hooks.example.org/hunter1#x",
		"ftp://hooks.example.org/hunter1", "app:hunter1@hooks.example.org", "https://hooks.example.org/hunter1/${NONE}", "https://hooks.example.org:x/hunter1", "https://hooks.example.org/hunter1', events: [no], token: 'hunter2",
	} {
		if _, err := config.Load(config.Sources{File: write(t, "notify:\n  - {name: own, method: POST, url: '"+url+"'}\n")}); err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheComposeFilesEdgeIsATarget(t *testing.T) {
	c := load(t, config.Sources{File: "../docs/deploy/compose/edge.yaml"})
	if !c.HasCache() || c.HTTP.CDNMaxAge == 0 || c.Notify[0].URL.Reveal() != "http://edge:8081" {
		t.Errorf("%+v", c.Notify)
	}
}
