package faults

import (
	"encoding/binary"
	"encoding/json"
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

// A change is made to a source file before it is compiled. A file of which nothing is known yet is
// added.
type change struct{ file, from, to string }

// anHour lets the signals USR1 and USR2 set the clock of a process forward and back by an hour. The
// monotonic clock runs on, as when a machine's clock is set.
func anHour(t *testing.T) []change {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "time").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	library := filepath.Join(strings.TrimSpace(string(folder)), "time.go")
	const now = "	sec, nsec, mono := runtimeNow()\n"
	return []change{
		{library, "func Now() Time {\n" + now, "var Step int64\n\nfunc Now() Time {\n" + now + "	sec += Step\n"},
		{filepath.Join(harness.Root, "cmd", "vitrine", "step.go"), "", `package main

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

// build compiles vitrine with changes that exist nowhere else, and returns the program.
func build(t *testing.T, changes ...change) (program string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for i, c := range changes {
		text := []byte(c.to)
		if c.from != "" {
			content, err := os.ReadFile(c.file)
			if err != nil || strings.Count(string(content), c.from) != 1 {
				t.Fatalf("%s does not have %q once: %v", c.file, c.from, err)
			}
			text = []byte(strings.Replace(string(content), c.from, c.to, 1))
		}
		file, err := filepath.Abs(c.file)
		testkit.Must(t, err)
		replace[file] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		testkit.Must(t, os.WriteFile(replace[file], text, 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	testkit.Must(t, err)
	list := filepath.Join(dir, "overlay.json")
	testkit.Must(t, os.WriteFile(list, overlay, 0o600))
	program = filepath.Join(dir, "vitrine")
	testkit.Must(t, harness.Build(program, "-overlay", list))
	return program
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
