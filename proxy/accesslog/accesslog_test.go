package accesslog

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestALineIsInTheCombinedFormat(t *testing.T) {
	for want, attrs := range map[string][]any{
		`192.0.2.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /gvapp/\?a=b HTTP/1.1" 200 10687 "https://example.org/" "Mozilla/5.0 \(X11\)"`: {
			"client", "192.0.2.1", "method", "GET", "host", "x", "target", "/gvapp/?a=b", "protocol", "HTTP/1.1", "status", 200, "bytes", 10687,
			"referer", "https://example.org/", "user_agent", "Mozilla/5.0 (X11)", "request_id", "r",
		},
		`:: - - \[.*\] "-" 400 0 "-" "-"`: {"client", "::", "status", 400, "bytes", 0},
		`:: - - \[.*\] "GET / HTTP/1.1" 404 9 "-" "\\x22 \\x5C\\x1B\[\\xFF\\xC2\\x9B é"`: {
			"client", "::", "method", "GET", "target", "/", "protocol", "HTTP/1.1", "status", 404, "bytes", 9, "user_agent", "\" \\\x1b[\xff\u009b é",
		},
	} {
		var out bytes.Buffer
		slog.New(Combined(&out)).Info("request", attrs...)
		if !regexp.MustCompile("^" + want + "\n$").Match(out.Bytes()) {
			t.Errorf("got %swant %s", &out, want)
		}
	}
}

func TestAFileIsReopenedAfterItWasRotated(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "access.log"), new(testkit.Buffer)
	f, err := Open(path, slog.New(slog.NewTextHandler(log, nil)))
	testkit.Must(t, err)
	defer f.Close()
	testkit.Write(t, f, "one\n")
	testkit.Must(t, os.Rename(path, path+".1"))
	testkit.Write(t, f, "two\n")
	testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1)) // before anybody watches
	go f.Watch(t.Context())
	testkit.Must(t, testkit.Retry(func() error {
		_, err := os.Stat(path)
		return err
	}))
	testkit.Write(t, f, "three\n")
	for file, want := range map[string]string{path: "three\n", path + ".1": "one\ntwo\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}

func TestAFullDiskIsLoggedOnce(t *testing.T) {
	log := new(testkit.Buffer)
	f, err := Open("/dev/full", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Skipf("a full disk is /dev/full: run it on Linux: %v", err)
	}
	defer f.Close()
	for range 3 {
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("a full device took a line")
		}
	}
	if n := strings.Count(log.String(), "access log not written"); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, log)
	}
}

func TestALineThatWasNotWrittenWholeEndsBeforeTheNext(t *testing.T) {
	from, to, err := os.Pipe()
	testkit.Must(t, err)
	defer from.Close()
	f := &File{file: to, log: slog.New(slog.DiscardHandler), stop: func() {}}
	defer f.Close()
	if err := to.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Skipf("pipes have no deadline here: run it on Linux: %v", err)
	}
	n, err := f.Write(make([]byte, 1<<20)) // more than a pipe holds
	if n == 0 || err == nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	_, err = io.CopyN(io.Discard, from, int64(n))
	testkit.Must(t, errors.Join(err, to.SetWriteDeadline(time.Time{})))
	for range 2 {
		testkit.Write(t, f, "whole\n")
	}
	const want = "\nwhole\nwhole\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAPipeThatNobodyReadsIsAnErrorAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipe can be made here: set TMPDIR to a folder on a local disk: %v", err)
	}
	if f, err := Open(path, slog.New(slog.DiscardHandler)); err == nil {
		_ = f.Close()
		t.Error("opened")
	}
}
