package operating

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

func TestSystemdPassesThePublicSocketAndHearsWhenItIsServed(t *testing.T) {
	public, socket := harness.OpenSocket(t)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	testkit.Must(t, err)
	defer manager.Close()

	vitrine := harness.Child{Socket: socket, Log: t.Output(), Environ: []string{
		"NOTIFY_SOCKET=" + manager.LocalAddr().String(), "WATCHDOG_USEC=100000", "VITRINE_LISTEN=:1",
	}}
	vitrine.Start(t)
	defer vitrine.Stop()

	waiting := map[string]int{"READY=1": 1, "WATCHDOG=1": 3}
	for state := make([]byte, 100); len(waiting) > 0; {
		testkit.Must(t, manager.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, err := manager.Read(state)
		if err != nil {
			t.Fatalf("still waiting for %v: %v", waiting, err)
		}
		if name := string(state[:n]); waiting[name] > 1 {
			waiting[name]--
		} else {
			delete(waiting, name)
		}
	}
	response, err := http.Get("http://" + public + "/gvapp/")
	testkit.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), `{"artist":`) {
		t.Errorf("status %d, %.80q, %v", response.StatusCode, body, err)
	}
}
