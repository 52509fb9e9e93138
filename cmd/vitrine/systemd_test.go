package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSystemdPassesThePublicSocketAndHearsWhenItIsServed(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed: apt-get install dash")
	}
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	file, err := public.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()

	// As systemd does: the process that becomes vitrine is the one that the socket is for.
	vitrine := exec.Command(sh, "-c", `LISTEN_PID=$$ exec vitrine serve`)
	vitrine.ExtraFiles = []*os.File{file} // descriptor 3
	vitrine.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+manager.LocalAddr().String(), "WATCHDOG_USEC=100000",
		"VITRINE_LISTEN=:1", "VITRINE_ADMIN_LISTEN=", "VITRINE_REDIS_URL=embedded:127.0.0.1:0")
	vitrine.Stdout, vitrine.Stderr = t.Output(), t.Output()
	if err := vitrine.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = vitrine.Process.Signal(os.Interrupt)
		if err := vitrine.Wait(); err != nil {
			t.Errorf("vitrine: %v", err)
		}
	}()

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
	response, err := http.Get("http://" + public.Addr().String() + "/gvapp/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), `{"artist":`) {
		t.Errorf("status %d, %.80q, %v", response.StatusCode, body, err)
	}
}
