package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// Every command of docs/operations.md is run against a real vitrine, a real Redis and the stand-in
// of the CMS, in the order in which it stands there.
func TestWhatOperatorsAreToldToTypeWorks(t *testing.T) {
	for tool, debianPackage := range map[string]string{"redis-cli": "redis-tools", "curl": "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacking(t, tool, debianPackage)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n(#[^\n]*)|\n```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 20 {
		t.Fatalf("only %d blocks and headings on the page", len(blocks))
	}

	server, cms, public, operator := redistest.Start(t), freeAddress(t), freeAddress(t), freeAddress(t)
	sampleCMS(t, cms)
	environ := append(os.Environ(), "VITRINE_LISTEN="+public, "VITRINE_ADMIN_LISTEN="+operator,
		"VITRINE_UPSTREAM_URL=http://"+cms, "VITRINE_REDIS_URL="+server.URL())
	command := exec.Command("vitrine", "serve", "--log-format", "json")
	command.Env, command.Stdout, command.Stderr = environ, t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			t.Errorf("vitrine: %v", err)
		}
	})
	ready := func() {
		t.Helper()
		if err := testkit.Retry(func() error {
			return isWellAt("http://" + operator + "/readyz")
		}); err != nil {
			t.Fatal(err)
		}
	}
	ready()

	// The page has the default addresses, and the one vitrine of the machine.
	bin := t.TempDir()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	port := server.Addr[strings.LastIndexByte(server.Addr, ':')+1:]
	for name, script := range map[string]string{
		"redis-cli": fmt.Sprintf("exec %s -e -p %s \"$@\"", cli, port),
		"pidof":     "echo " + strconv.Itoa(command.Process.Pid),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environ = append(environ, "PATH="+bin+":"+os.Getenv("PATH"))
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

// isWellAt wants 200.
func isWellAt(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
