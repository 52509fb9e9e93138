//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestAPipeIsReadWhenItIsWrittenAndNotWaitedForForEver(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "vitrine.yaml")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	_, err := readWithin(30*time.Millisecond, pipe, fileLimit)
	if err == nil || err.Error() != "nothing was written to this pipe in 30ms" {
		t.Error(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDWR, 0) // by a program that does not write yet
	testkit.Must(t, err)
	if _, err := readWithin(30*time.Millisecond, pipe, fileLimit); err == nil || !strings.HasPrefix(err.Error(), "nothing") {
		t.Errorf("a pipe that stays open: %v", err)
	}
	testkit.Must(t, held.Close())
	ended := make(chan error, 1)
	go func() { ended <- os.WriteFile(pipe, []byte("listen: ':4321'\n"), 0o600) }()
	c, err := Load(Sources{File: pipe})
	if werr := testkit.Receive(t, ended); err != nil || werr != nil || c.Listen != ":4321" {
		t.Errorf("%q, %v, %v", c.Listen, err, werr)
	}
}
