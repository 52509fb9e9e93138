package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"vitrine/cmd/testkit"
	"vitrine/config"
)

// shown is everything that printing, logging and encoding make of v.
func shown(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+"\n", v)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("text", "v", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "v", v)
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		encoded, err := marshal(v)
		testkit.Must(t, err)
		out.Write(encoded)
	}
	return out.String()
}

func TestSecretsNeverShowThemselves(t *testing.T) {
	const password = "hunter2"
	c := load(t, config.Sources{Environ: []string{
		"VITRINE_UPSTREAM_AUTHORIZATION=" + password,
		"VITRINE_REDIS_URL=redis://app:" + password + "@redis:6379/0?sentinel_password=" + password,
	}})
	type wrapped struct{ hidden config.Secret }
	for name, v := range map[string]any{
		"the secret":                c.Upstream.Authorization,
		"a pointer to it":           &c.Upstream.Authorization,
		"the address":               c.Redis.URL,
		"a struct that holds it":    c.Upstream,
		"an unexported field of it": wrapped{c.Upstream.Authorization},
	} {
		text := shown(t, v)
		if strings.Contains(text, password) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", password)) {
			t.Errorf("%s shows itself:\n%s", name, text)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, password) {
		t.Errorf("the configuration shows a secret: %s", text)
	}
	if got := c.Upstream.Authorization.Reveal(); got != password {
		t.Errorf("Reveal() = %q", got)
	}
	if got, want := c.Redis.URL.String(), "redis://app:***@redis:6379/0?***"; got != want {
		t.Errorf("address is shown as %q, want %q", got, want)
	}
}

func TestAnAddressThatIsWrongDoesNotShowItsPassword(t *testing.T) {
	for _, address := range []string{
		"redis://:hunter2@", "redis://app:hunter2@redis:port", "app:hunter2@redis", ":hunter2@redis", "hunter2@redis:6379",
		"redis:/:hunter2@redis", "http://me:hunter2@cms", "redis://redis?sentinel_password=hunter2%zz", "ftp://x?token=hunter2",
		"https://hunter2@cms", "https://cms/#hunter2", "https://cms/?a=%zz&token=hunter2",
	} {
		for _, variable := range []string{"VITRINE_REDIS_URL", "VITRINE_UPSTREAM_URL"} {
			if _, err := config.Load(config.Sources{Environ: []string{variable + "=" + address}}); err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is shown: %v", err)
			}
		}
	}
}

// TestASecretThatYAMLTakesForSyntaxIsNotShown: a token may begin with what YAML gives a meaning.
func TestASecretThatYAMLTakesForSyntaxIsNotShown(t *testing.T) {
	for _, form := range []string{
		"*hunter2hunter2", "!hunter2hunter2 x", "!!hunter2hunter2 x", "&hunter2hunter2", "&hunter2 *hunter2", "%%hunter2", "`hunter2`", "@hunter2", "|hunter2", ">hunter2",
		"hunter2: x", "\"hunter2", "'hunter2", "\"hunter2\\q\"", "{hunter2", "[hunter2", "{hunter2: 1}", "[hunter2]", "!!binary hunter2", "!!int hunter2", "!!float hunter2",
		"!!timestamp hunter2", "? hunter2", "- hunter2", "hunter2\n hunter3: x", "<<: *hunter2", "\"\\uDC00hunter2\"", "${hunter2", "${hunter2}", "${hunter-2}", "hunter2\t\x01",
	} {
		for _, place := range []string{
			"upstream:\n  authorization: %s\n", "admin:\n  token: %s\n", "hook:\n  secret: %s\n",
			"notify:\n- name: a\n  preset: nextjs\n  url: http://x\n  secret: %s\n", "notify:\n- name: a\n  method: POST\n  url: http://x/%s\n  events: [x]\n",
			"upstream:\n  url: http://cms\n  shared:\n    headers:\n      X-Key: %s\n",
		} {
			_, err := config.Load(config.Sources{File: write(t, fmt.Sprintf(place, form))})
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "${hunter2}", ""), "hunter") {
				t.Errorf("%q in %q: %v", form, place, err)
			}
		}
	}
}
