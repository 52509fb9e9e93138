package operating

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// Every command of docs/operations.md is run against a real vitrine, a real Redis and the stand-in
// of the CMS, in the order in which it stands there.
func TestWhatOperatorsAreToldToTypeWorks(t *testing.T) {
	cli := harness.Need(t, "redis-cli", "redis-tools")
	harness.Need(t, "curl", "curl")
	page, err := os.ReadFile(filepath.Join(harness.Root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n(#[^\n]*)|\n```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 20 {
		t.Fatalf("only %d blocks and headings on the page", len(blocks))
	}

	server, cms, public, operator := redistest.Start(t), harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t)
	harness.SampleCMS(t, cms)
	settings := []string{
		"VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=" + operator,
		"VITRINE_UPSTREAM_URL=http://" + cms, "VITRINE_REDIS_URL=" + server.URL(),
	}
	vitrine := harness.Child{Environ: settings, Log: t.Output()}
	vitrine.Start(t)
	t.Cleanup(vitrine.Stop)
	ready := func() {
		t.Helper()
		if err := testkit.Retry(func() error {
			return harness.IsWellAt("http://" + operator + "/readyz")
		}); err != nil {
			t.Fatal(err)
		}
	}
	ready()

	// The page has the default addresses, and the one vitrine of the machine.
	bin := t.TempDir()
	port := server.Addr[strings.LastIndexByte(server.Addr, ':')+1:]
	for name, script := range map[string]string{
		"redis-cli": fmt.Sprintf("exec %s -e -p %s \"$@\"", cli, port),
		"pidof":     "echo " + strconv.Itoa(vitrine.Pid()),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environ := append(append(os.Environ(), settings...), "PATH="+bin+":"+os.Getenv("PATH"))
	addresses := strings.NewReplacer("127.0.0.1:8080", public, "127.0.0.1:9090", operator)
	heading := ""
	for _, block := range blocks {
		if block[1] != "" {
			heading = block[1]
			continue
		}
		ready()
		for line := range strings.Lines(block[2]) {
			shell := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-ec", addresses.Replace(line))
			shell.Env = environ
			if out, err := shell.CombinedOutput(); err != nil || len(out) == 0 && !strings.HasPrefix(line, "kill") && !strings.HasPrefix(line, "vitrine healthcheck") {
				t.Errorf("%s: %s: %v\n%s", heading, strings.TrimSpace(line), err, out)
			}
		}
	}
	ready()
}
