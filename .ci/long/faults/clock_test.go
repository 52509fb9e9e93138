package faults

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// anHour lets the signals USR1 and USR2 set the clock of a process forward and back by an hour. The
// monotonic clock runs on, as when a machine's clock is set.
func anHour(t *testing.T) []harness.Change {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "time").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	library := filepath.Join(strings.TrimSpace(string(folder)), "time.go")
	const now = "	sec, nsec, mono := runtimeNow()\n"
	return []harness.Change{
		{File: library, From: "func Now() Time {\n" + now, To: "var Step int64\n\nfunc Now() Time {\n" + now + "	sec += Step\n"},
		{File: filepath.Join(harness.Root, "cmd", "vitrine", "step.go"), To: `package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range c {
			if s == syscall.SIGUSR1 { time.Step += 3600 } else { time.Step -= 3600 }
		}
	}()
}
`},
	}
}

// redisWithAClock starts a Redis whose wall clock set sets, by so many hours.
func redisWithAClock(t *testing.T, args ...string) (server *redistest.Server, set func(hours int)) {
	t.Helper()
	redistest.Require(t)
	harness.Need(t, "cc", "gcc")
	dir := t.TempDir()
	clock, library, script := filepath.Join(dir, "clock"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "redis-server")
	if output, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, output)
	}
	file, err := os.Create(clock)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	set = func(hours int) {
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(hours)*3600)), 0); err != nil {
			t.Error(err)
		}
	}
	set(0)
	program, err := exec.LookPath("redis-server")
	testkit.Must(t, err)
	// On the path, for each start of the server.
	text := fmt.Sprintf("#!/bin/sh\nexec env LD_PRELOAD=%s CLOCK=%s %s \"$@\"\n", library, clock, program)
	testkit.Must(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return redistest.Start(t, args...), set
}
