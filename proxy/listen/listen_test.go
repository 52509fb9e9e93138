package listen

import (
	"bufio"
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
	testkit.Must(t, l.Close())
	_, err = os.Lstat(path)
	testkit.Must(t, err)
}

func TestASocketThatACrashLeftBehindIsReplaced(t *testing.T) {
	path := filepath.Join(testkit.SocketDir(t), "v.sock")
	leftOver(t, path)
	s, err := Open(t.Context(), "unix:"+path, quiet)
	testkit.Must(t, err)
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v: want a socket that everybody may connect to", info.Mode(), err)
	}
	testkit.Dial(t, "unix", path)
	_, err = s.Accept()
	testkit.Check(t, errors.Join(err, s.Close()))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after closing: %v", err)
	}
}

func TestWhatIsInUseIsLeftAlone(t *testing.T) {
	dir := testkit.SocketDir(t)
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "v.sock")
	testkit.Must(t, os.WriteFile(file, []byte("precious"), 0o600))
	unix, err := Open(t.Context(), "unix:"+socket, quiet)
	testkit.Must(t, err)
	tcp, err := Open(t.Context(), "127.0.0.1:0", quiet)
	testkit.Must(t, err)
	for address, want := range map[string]error{
		"unix:" + file: syscall.EADDRINUSE, "unix:" + socket: syscall.EADDRINUSE, tcp.Addr().String(): syscall.EADDRINUSE,
		"unix:" + filepath.Join(dir, "nowhere", "v.sock"): fs.ErrNotExist,
	} {
		if _, err := Open(t.Context(), address, quiet); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	for _, s := range []*Socket{unix, tcp} {
		testkit.Dial(t, s.Addr().Network(), s.Addr().String())
		_, err := s.Accept()
		testkit.Check(t, errors.Join(err, s.Close()))
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("%q, %v", content, err)
	}
}

// failing is a listener that cannot accept for a while.
type failing struct {
	net.Listener
	errs chan error
}

func (f *failing) Accept() (net.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	default:
		return f.Listener.Accept()
	}
}

func TestAcceptingGoesOnAfterAnyError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	errs := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO, syscall.ECONNABORTED}
	f := &failing{l, make(chan error, len(errs))}
	for _, err := range errs {
		f.errs <- err
	}
	var log strings.Builder
	s := Take(f, slog.New(slog.NewTextHandler(&log, nil)))
	testkit.Dial(t, "tcp", s.Addr().String())
	_, err = s.Accept()
	testkit.Check(t, errors.Join(err, s.Close()))
	if n := strings.Count(log.String(), "cannot accept connections"); n != 1 || !strings.Contains(log.String(), "failures=6") {
		t.Errorf("logged:\n%s", &log)
	}
}

// noting is a listener that says when a connection was accepted, and waits until it may go on.
type noting struct {
	net.Listener
	accepted, goOn chan struct{}
}

func (n *noting) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		close(n.accepted)
		<-n.goOn
	}
	return c, err
}

func TestAConnectionAcceptedBeforeTheEndIsServedAndEnds(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	n := &noting{tcp, make(chan struct{}), make(chan struct{})}
	v := serve(New(Take(n, quiet), nil), "v")
	conn := testkit.Dial(t, "tcp", v.Addr().String())
	testkit.Receive(t, n.accepted)
	testkit.Must(t, v.Drain())
	close(n.goOn)
	c := &client{conn, bufio.NewReader(conn)}
	testkit.Must(t, c.ask(aRequest))
	if got, err := c.answer(); got != "v" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	v.end(t)
}
