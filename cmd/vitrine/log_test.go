package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// logged runs vitrine, with a line a request, until it serves: its output goes into to.
func logged(t *testing.T, to *os.File, environ ...string) (process *exec.Cmd, listen, admin string) {
	t.Helper()
	listen, admin = fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	process = exec.Command("vitrine")
	process.Env = append(os.Environ(), append([]string{"VITRINE_LISTEN=" + listen, "VITRINE_ADMIN_LISTEN=" + admin, "VITRINE_LOG_ACCESS=on",
		fmt.Sprint("VITRINE_REDIS_URL=embedded:127.0.0.1:", redistest.FreePort(t))}, environ...)...)
	process.Stdout, process.Stderr = to, to
	testkit.Must(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill() })
	testkit.Must(t, to.Close())
	testkit.Must(t, testkit.Retry(func() error {
		_, err := testkit.Ask(http.DefaultClient, "http://"+listen+"/cms/rules/")
		return err
	}))
	return process, listen, admin
}

// ends has it end in time.
func ends(t *testing.T, process *exec.Cmd) {
	t.Helper()
	testkit.Must(t, process.Process.Signal(syscall.SIGTERM))
	began := time.Now()
	if err := process.Wait(); err != nil || time.Since(began) > 8*time.Second {
		t.Errorf("SIGTERM: %v after %v", err, time.Since(began))
	}
}

// TestALogThatIsNotReadHoldsNobodyUp: a line a request goes into a pipe whose reader hangs, is back,
// and goes.
func TestALogThatIsNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	testkit.Must(t, err)
	process, listen, admin := logged(t, to, "VITRINE_LOG_FORMAT=json", "VITRINE_SHUTDOWN_TIMEOUT=2s")
	agent := strings.Repeat("x", 290)
	visit := func(url string) []byte {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		testkit.Must(t, err)
		for name := range strings.FieldsSeq("User-Agent Referer") {
			request.Header.Set(name, agent)
		}
		response, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if testkit.Must(t, err); response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", url, response.Status)
		}
		return body
	}
	lost := func() string {
		return string(regexp.MustCompile(`(?m)^vitrine_log_lines_lost_total (\d+)$`).FindSubmatch(visit("http://" + admin + "/metrics"))[1])
	}
	for range 1500 { // of 1 KB
		visit("http://" + listen + "/cms/rules/")
	}
	if n := lost(); n == "0" {
		t.Error("no lines were lost")
	}
	// All that were lost are told of once there is a reader, at once or one after the other.
	missing, err := strconv.Atoi(lost())
	testkit.Must(t, err)
	testkit.Must(t, from.SetReadDeadline(time.Now().Add(20*time.Second)))
	for lines := bufio.NewScanner(from); missing > 0; {
		if !lines.Scan() {
			t.Fatalf("%v; the log does not tell of %d lost lines", lines.Err(), missing)
		}
		if told := regexp.MustCompile(`"msg":"log lines lost","lines":(\d+)}`).FindSubmatch(lines.Bytes()); told != nil {
			n, err := strconv.Atoi(string(told[1]))
			testkit.Must(t, err)
			missing -= n
		}
	}
	testkit.Must(t, from.Close()) // SIGPIPE
	before := lost()
	visit("http://" + listen + "/cms/rules/")
	testkit.Eventually(t, "the line of a reader that has gone is counted", func() bool { return lost() != before })
	ends(t, process)
}

// TestSIGTERMEndsAProcessWhoseOutputIsNotRead: stdout and stderr are a pipe that is full.
func TestSIGTERMEndsAProcessWhoseOutputIsNotRead(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	testkit.Must(t, err)
	defer from.Close()
	testkit.Must(t, to.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = to.Write(make([]byte, 1<<20)) // more than it holds
	if err == nil {
		t.Fatal("the pipe took a MiB")
	}
	process, _, _ := logged(t, to)
	ends(t, process)
}
