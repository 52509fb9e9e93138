package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"vitrine/cache/lease"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestCommandsEndInTimeWhateverAnswersThem: a 101, and then silence.
func TestCommandsEndInTimeWhateverAnswersThem(t *testing.T) {
	address := testkit.Accept(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn)) // a response before it would be an error of its own
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-t.Context().Done()
	})
	for _, args := range [][]string{{"healthcheck"}, {"status"}} {
		began := time.Now()
		_, errs := runCommand(t, exitFailed, nil, append(args, "--url", "http://"+address)...)
		if !strings.Contains(errs, "status 101") || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v, %s", args, time.Since(began), errs)
		}
	}
}

// TestNoPasswordOfAURLIsPrinted whatever is wrong with it or its server.
func TestNoPasswordOfAURLIsPrinted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/broken") {
			w.Header().Set("Content-Length", "9")
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	for _, url := range []string{
		"http://u:hunter2@127.0.0.1:1", "http://u:hunter2@127.0.0.1:1/?k=hunter2", "http://hunter2@127.0.0.1:1", "http://u:hunter2@127.0.0.1:99999",
		"http://u:hunter2@[::1", "ht!tp://u:hunter2@x", "u:hunter2@x", "http://u:hun%zzter2hunter2@x", "https://u:hunter2@" + address,
		"http://u:hunter2@" + address, "http://u:hunter2@" + address + "/broken", "http://u:hunter2@" + address + "#hunter2", "ftp://u:hunter2@x",
	} {
		for _, name := range []string{"status", "healthcheck", "status --json"} {
			var out bytes.Buffer
			run(t.Context(), append(strings.Fields(name), "--url", url), program{stdout: &out, stderr: &out})
			if strings.Contains(out.String(), "hunter") {
				t.Errorf("%s --url %s: %s", name, url, &out)
			}
		}
	}
}

// TestAVersionThatThisProgramCannotServeIsNotRestored, such as one of another release.
func TestAVersionThatThisProgramCannotServeIsNotRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	body, client := []byte(`[{"id":1,"colour":"red"}]`), server.Client()
	name := lease.VersionOf(body)
	encoder, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	testkit.Must(t, err)
	defer func() { _ = encoder.Close() }()
	about := fmt.Sprintf(`{"at":1,"items":1,"bytes":%d}`, len(body))
	testkit.Must(t, client.HSet(t.Context(), "vitrine:history:{vitrine:banners}", name, about, name+":body", encoder.EncodeAll(body, nil)).Err())
	_, errs := runCommand(t, exitFailed, []string{"VITRINE_REDIS_URL=" + server.URL()}, "restore", "banners", name)
	if n := client.Exists(t.Context(), "vitrine:banners").Val(); n > 0 || !strings.Contains(errs, "not in the documented form") {
		t.Errorf("restored: %d; %s", n, errs)
	}
}
