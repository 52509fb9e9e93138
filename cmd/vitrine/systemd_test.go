package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSystemdPassesThePublicSocketAndHearsWhenItIsServed(t *testing.T) {
	public, socket := openSocket(t)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()

	vitrine := child{socket: socket, log: t.Output(), environ: []string{
		"NOTIFY_SOCKET=" + manager.LocalAddr().String(), "WATCHDOG_USEC=100000", "VITRINE_LISTEN=:1",
	}}
	vitrine.start(t)
	defer vitrine.stop()

	waiting := map[string]int{"READY=1": 1, "WATCHDOG=1": 3}
	for state := make([]byte, 100); len(waiting) > 0; {
		if err := manager.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), `{"artist":`) {
		t.Errorf("status %d, %.80q, %v", response.StatusCode, body, err)
	}
}

func TestSocketsThatSystemdCannotHavePassedAreRefused(t *testing.T) {
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("LISTEN_FDS", "1000000000") // more than there is memory for
	if l, err := inherited(); err == nil || l != nil {
		t.Errorf("%v, %v", l, err)
	}
}
