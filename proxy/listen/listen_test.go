package listen

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vitrine/cmd/testkit"
)

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

// leftOver leaves a socket file that nobody listens on, as a crash does.
func leftOver(t testing.TB, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

// answers reports whether somebody accepts connections at path.
func answers(s *Socket, path string) error {
	accepted := make(chan error, 1)
	go func() {
		conn, err := s.Listen(nil).Accept()
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
	path := filepath.Join(testkit.SocketDir(t), "v.sock")
	leftOver(t, path)
	l, err := Open(t.Context(), "unix:"+path, quiet)
	testkit.Must(t, err)
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
	path := filepath.Join(testkit.SocketDir(t), "v.sock")
	first, err := Open(t.Context(), "unix:"+path, quiet)
	testkit.Must(t, err)
	defer first.Close()
	looked := make(chan struct{})
	go func() { // what looks whether the socket is in use connects
		defer close(looked)
		if conn, err := first.Listen(nil).Accept(); err == nil {
			conn.Close()
		}
	}()
	if l, err := Open(t.Context(), "unix:"+path, quiet); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			l.Close()
		}
		t.Errorf("a second listener: %v, want EADDRINUSE", err)
	}
	testkit.Receive(t, looked)
	if err := answers(first, path); err != nil {
		t.Errorf("the first listener does not answer any more: %v", err)
	}
}

func TestAFileThatIsNotASocketIsLeftAlone(t *testing.T) {
	path := filepath.Join(testkit.SocketDir(t), "v.sock")
	testkit.Must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Open(t.Context(), "unix:"+path, quiet); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "precious" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := Open(t.Context(), "unix:"+filepath.Join(filepath.Dir(path), "nowhere", "v.sock"), quiet); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

func TestTCPAddressesAreOpenedAsTheyAre(t *testing.T) {
	l, err := Open(t.Context(), "127.0.0.1:0", quiet)
	testkit.Must(t, err)
	defer l.Close()
	if _, err := Open(t.Context(), l.Addr().String(), quiet); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	if path, ok := SocketPath("127.0.0.1:80"); ok {
		t.Errorf("a port is taken for the socket %s", path)
	}
	if path, ok := SocketPath("unix:/run/v.sock"); !ok || path != "/run/v.sock" {
		t.Errorf("%s %v", path, ok)
	}
}
