package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
)

func TestMain(m *testing.M) {
	testscript.Main(testkit.Waiting{M: m, AtOnce: 4}, map[string]func(){"vitrine": func() { os.Exit(execute(os.Getenv("INSTALLED"))) }})
}

// Each script runs the real command, and begins with why it is there. Beside testscript's own
// commands there are those of scriptCommands; LISTEN, ADMIN, CMS and REDIS are free addresses.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Deadline:            time.Now().Add(3 * time.Minute), // of those together
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    scriptExits,
			"until":    scriptUntil,
			"httpget":  scriptGet,
			"httppost": scriptPost,
			"waitfor":  scriptWaitFor,
			"occupy":   scriptOccupy,
			"sigterm":  scriptSignal(syscall.SIGTERM),
			"sighup":   scriptSignal(syscall.SIGHUP),
			"mkcert":   scriptMakeCertificate,
			"waittls":  scriptWaitForTLS,
		},
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"LISTEN", "ADMIN", "CMS", "REDIS"} {
				port := strconv.Itoa(redistest.FreePort(env.T().(testing.TB))) // until the script ends
				env.Setenv(name, "127.0.0.1:"+port)
				env.Setenv(name+"_PORT", port)
			}
			return nil
		},
	})
}

// A library's own log is no line of ours: that of net/http quotes what a CMS sends without being
// asked.
func TestNothingOfALibrarysLogComesOut(t *testing.T) {
	t.Parallel()
	cms := testkit.Accept(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]unsolicited")
		_, _ = conn.Read(make([]byte, 1)) // until it is closed
	})
	var out bytes.Buffer
	command := exec.CommandContext(t.Context(), "vitrine", "check")
	command.Env = append(os.Environ(), "VITRINE_UPSTREAM_URL=http://"+cms, "VITRINE_REDIS_URL=redis://"+redistest.Start(t).Addr)
	command.Stderr = &out
	if code := command.Run(); code == nil {
		t.Error("a catalogue that is a list was accepted")
	}
	if out.Len() > 0 {
		t.Errorf("stderr has %s", out.String())
	}
}

// exits CODE COMMAND… runs it to its end and wants that exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](ts.Exec(args[1], args[2:]...)); ok {
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%v exits %d, want %s", args[1:], code, args[0])
	}
}

// until REGEXP COMMAND… runs it until it prints that.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND…")
	}
	want := regexp.MustCompile(args[0])
	if err := testkit.Retry(func() error {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); err == nil && !want.MatchString(out) {
			err = errors.New(out)
		}
		return err
	}); err != nil {
		ts.Fatalf("until %v: %v", args, err)
	}
}

// fresh connects for each request.
var fresh = &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}

// httpget URL [STATUS] wants that status, 200 if none is named, and shows the head and the body as
// stdout.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: httpget URL [STATUS]")
	}
	want := "200"
	if len(args) > 1 {
		want = args[1]
	}
	got, err := testkit.Ask(fresh, args[0])
	ts.Check(err)
	ts.Check(got.Header.Write(ts.Stdout()))
	fmt.Fprintf(ts.Stdout(), "\n%s\n", got.Body)
	if strconv.Itoa(got.Status) != want {
		ts.Fatalf("GET %s: status %d, want %s\n%s", args[0], got.Status, want, got.Body)
	}
}

// httppost URL BODY STATUS [FIELD] wants that status and shows the body as stdout.
func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: httppost URL BODY STATUS [FIELD]")
	}
	request, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	for _, field := range args[3:] {
		name, value, _ := strings.Cut(field, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", body)
	if strconv.Itoa(response.StatusCode) != args[2] {
		ts.Fatalf("POST %s: status %d, want %s\n%s", args[0], response.StatusCode, args[2], body)
	}
}

// waitfor URL [STATUS [REGEXP]] asks until it has that status, 200 if none is named, with such a line in
// its fields or body, and shows these as stdout. waitfor PATH.sock connects until somebody listens.
func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: waitfor URL [STATUS [REGEXP]] | waitfor PATH.sock")
	}
	want := []string{"200", ""}
	copy(want, args[1:])
	line := regexp.MustCompile("(?m)" + want[1])
	if err := testkit.Retry(func() error {
		if !strings.Contains(args[0], "://") {
			connection, err := net.Dial("unix", ts.MkAbs(args[0]))
			if err != nil {
				return err
			}
			return connection.Close()
		}
		got, err := testkit.Ask(fresh, args[0])
		if err != nil {
			return err
		}
		var answer strings.Builder
		_ = got.Header.Write(&answer)
		answer.WriteString("\n" + got.Body + "\n")
		if strconv.Itoa(got.Status) != want[0] || !line.MatchString(answer.String()) {
			return fmt.Errorf("status %d\n%s", got.Status, &answer)
		}
		_, err = io.WriteString(ts.Stdout(), answer.String())
		return err
	}); err != nil {
		ts.Fatalf("waitfor %v: %v", args, err)
	}
}

// occupy HOST:PORT listens there until the script ends.
func scriptOccupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy HOST:PORT")
	}
	l, err := net.Listen("tcp", args[0])
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
}

// scriptSignal makes sigterm WORD and sighup WORD: they send it to the background commands with
// that argument, which testscript's kill cannot.
func scriptSignal(signal syscall.Signal) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: sigterm WORD, sighup WORD")
		}
		told := 0
		for _, command := range ts.BackgroundCmds() {
			if slices.Contains(command.Args, args[0]) {
				ts.Check(command.Process.Signal(signal))
				told++
			}
		}
		if told == 0 {
			ts.Fatalf("no background command has the argument %s", args[0])
		}
	}
}

// mkcert CERT KEY [LASTS] writes a new certificate for 127.0.0.1, good for an hour or as long as it
// lasts, and its key.
func scriptMakeCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mkcert CERT KEY [LASTS]")
	}
	lasts, err := time.ParseDuration(append(args, "1h")[2])
	ts.Check(err)
	cert, key, err := listentest.CertificateUntil("vitrine", time.Now().Add(lasts))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), cert, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), key, 0o600))
}

// waittls HOST:PORT CERT connects until it gets exactly that certificate.
func scriptWaitForTLS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waittls HOST:PORT CERT")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ts.ReadFile(args[1])))
	ts.Check(testkit.Retry(func() error {
		conn, err := tls.Dial("tcp", args[0], &tls.Config{RootCAs: pool})
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}
