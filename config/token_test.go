package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config"
)

// A token is made where one is needed, once, and only that one is ever logged.
func TestATokenIsMadeOnceForAnAddressThatOthersReach(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	var made config.Secret
	ready := func(environ ...string) config.Config {
		c := load(t, config.Sources{Environ: environ})
		testkit.Must(t, c.MakeToken(&made))
		return c
	}
	if c := ready(); c.HasMadeToken() || c.Admin.Token.Reveal() != "" {
		t.Error("a token was made for loopback")
	}
	if c := ready("VITRINE_ADMIN_LISTEN=:9090", "VITRINE_ADMIN_TOKEN=open-sesame"); c.HasMadeToken() {
		t.Error("a token was made beside that of the settings")
	}
	first := ready("VITRINE_ADMIN_LISTEN=:9090", "VITRINE_ADMIN_TOKEN_FILE="+file)
	info, err := os.Stat(file)
	testkit.Must(t, err)
	if !first.HasMadeToken() || len(first.Admin.Token.Reveal()) < 20 || info.Mode().Perm() != 0o600 || strings.Contains(string(first.YAML()), first.Admin.Token.Reveal()) {
		t.Errorf("%v, mode %v", first.HasMadeToken(), info.Mode())
	}
	again := ready("VITRINE_ADMIN_LISTEN=:9090", "VITRINE_ADMIN_TOKEN_FILE="+file)
	if again.HasMadeToken() || !again.Admin.Token.Equal(first.Admin.Token) {
		t.Error("the kept token is not used")
	}
	kept := first
	kept.Admin.Token = config.NewSecret("of-the-settings")
	if kept.HasMadeToken() {
		t.Error("another token would be logged")
	}
	made = config.Secret{}
	other := load(t, config.Sources{Environ: []string{"VITRINE_ADMIN_LISTEN=:9090", "VITRINE_LAST_GOOD=" + dir}})
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "admin-token"), []byte("of-another-process\n"), 0o600)) // meanwhile
	testkit.Must(t, other.MakeToken(&made))
	if other.HasMadeToken() || other.Admin.Token.Reveal() != "of-another-process" {
		t.Error("two processes have two tokens")
	}
}
