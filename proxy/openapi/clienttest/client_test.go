// Package clienttest has a client generated from the OpenAPI document, and uses it against a
// running vitrine with nothing but defaults. It is a module of its own, so that the generator is no
// dependency of vitrine.
package clienttest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/oapi-codegen/runtime" // which the generated client imports
)

// run runs a program to its end, within two minutes.
func run(t *testing.T, dir string, environ []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), environ...)
	out, err := command.CombinedOutput()
	t.Logf("%s %q:\n%s", name, args, out)
	if err != nil {
		t.Fatal(err)
	}
}

func TestAGeneratedClientWorks(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	client := filepath.Join(work, "client")
	if err := os.Mkdir(client, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, root, nil, "go", "build", "-o", filepath.Join(work, "vitrine"), "./cmd/vitrine")
	run(t, ".", nil, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client",
		"-o", filepath.Join(client, "client.go"), filepath.Join("..", "openapi.json"))
	for from, to := range map[string]string{"go.mod": "go.mod", "go.sum": "go.sum", "testdata/use_test.go": "use_test.go"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(client, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := serve(t, filepath.Join(work, "vitrine"))
	run(t, client, []string{"VITRINE_URL=" + url}, "go", "test", "-count=1", "-v", ".")
}

// serve runs a vitrine with the bundled content until the test ends.
func serve(t *testing.T, program string) (url string) {
	t.Helper()
	addresses := make([]string, 3)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log := new(bytes.Buffer)
	command := exec.Command(program)
	command.Env = append(os.Environ(), "VITRINE_LISTEN="+addresses[0], "VITRINE_ADMIN_LISTEN="+addresses[1], "VITRINE_REDIS_URL=embedded:"+addresses[2])
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		if err := command.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("vitrine: %v\n%s", err, log)
		}
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); ; {
		if response, err := http.Get("http://" + addresses[1] + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + addresses[0]
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("vitrine is not ready within 30s")
		case err := <-ended:
			ended <- err
			t.Fatalf("vitrine ended: %v\n%s", err, log)
		}
	}
}
