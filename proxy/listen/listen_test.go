package listen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// leftOver leaves a socket file that nobody listens on, as a crash does.
func leftOver(t testing.TB, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

// answers reports whether somebody accepts connections at path.
func answers(l net.Listener, path string) error {
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	conn.Close()
	return <-accepted
}

func TestASocketThatACrashLeftBehindIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.sock")
	leftOver(t, path)
	l, err := Open(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers(l, path); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v: want a socket that everybody may connect to", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after closing: %v", err)
	}
}

func TestASocketInUseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.sock")
	first, err := Open(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	go func() { // what looks whether the socket is in use connects
		if conn, err := first.Accept(); err == nil {
			conn.Close()
		}
	}()
	if l, err := Open(t.Context(), "unix:"+path); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			l.Close()
		}
		t.Errorf("a second listener: %v, want EADDRINUSE", err)
	}
	if err := answers(first, path); err != nil {
		t.Errorf("the first listener does not answer any more: %v", err)
	}
}

func TestAFileThatIsNoSocketIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "unix:"+path); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "precious" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := Open(t.Context(), "unix:"+filepath.Join(filepath.Dir(path), "nowhere", "v.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// TestOfManyThatStartOnOneLeftOverSocketOneWins: the others are told that it is in use, and the winner is the one who
// is reached there.
func TestOfManyThatStartOnOneLeftOverSocketOneWins(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "v.sock")
		leftOver(t, path)
		var mu sync.Mutex
		var won []net.Listener
		var starting sync.WaitGroup
		for range 8 {
			starting.Go(func() {
				l, err := Open(t.Context(), "unix:"+path)
				if err != nil {
					if !errors.Is(err, syscall.EADDRINUSE) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				won = append(won, l)
			})
		}
		starting.Wait()
		if len(won) != 1 {
			t.Fatalf("%d listeners on one socket", len(won))
		}
		won[0].Close()
	}
}

func TestTCPAddressesAreOpenedAsTheyAre(t *testing.T) {
	l, err := Open(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Open(t.Context(), l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	if path, ok := SocketPath("127.0.0.1:80"); ok {
		t.Errorf("a port is taken for the socket %s", path)
	}
	if path, ok := SocketPath("unix:/run/v.sock"); !ok || path != "/run/v.sock" {
		t.Errorf("%s %v", path, ok)
	}
}
