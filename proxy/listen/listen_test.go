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
	"time"

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
	_, err = os.Lstat(path)
	testkit.Must(t, err)
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
	testkit.Check(t, answers(l, path))
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v: want a socket that everybody may connect to", info.Mode(), err)
	}
	testkit.Check(t, l.Close())
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
	errs := []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO, syscall.ECONNABORTED,
	}
	f := &failing{l, make(chan error, len(errs))}
	for _, err := range errs {
		f.errs <- err
	}
	var log strings.Builder
	s := Take(f, slog.New(slog.NewTextHandler(&log, nil)))
	v := serve(s, nil, "v")
	conn := testkit.Dial(t, "tcp", s.Addr().String())
	c := &client{conn, bufio.NewReader(conn)}
	testkit.Must(t, c.ask(aRequest))
	if got, err := c.answer(); got != "v" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	conn.Close()
	v.end(t)
	testkit.Check(t, s.Close())
	if n := strings.Count(log.String(), "cannot accept connections"); n != 1 || !strings.Contains(log.String(), "failures=6") {
		t.Errorf("logged:\n%s", &log)
	}
}

// noting is a listener that says when a connection was accepted.
type noting struct {
	*net.TCPListener
	accepted chan struct{}
}

func (n *noting) Accept() (net.Conn, error) {
	c, err := n.TCPListener.Accept()
	if err == nil {
		n.accepted <- struct{}{}
	}
	return c, err
}

func TestAConnectionAcceptedBeforeTheEndIsServed(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	n := &noting{tcp.(*net.TCPListener), make(chan struct{})}
	s := Take(n, quiet)
	l := s.Listen(nil)
	for range 2 {
		testkit.Dial(t, "tcp", s.Addr().String())
	}
	first := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		testkit.Check(t, err)
		first <- c
	}()
	testkit.Receive(t, n.accepted)
	if c := testkit.Receive(t, first); c != nil {
		c.Close()
	}
	testkit.Receive(t, n.accepted) // and no service has taken the second
	drained := make(chan error)
	go func() { drained <- l.Drain(t.Context()) }()
	served, err := l.Accept()
	if err != nil {
		t.Fatalf("the connection is lost: %v", err)
	}
	served.Close()
	testkit.Check(t, testkit.Receive(t, drained))
	testkit.Check(t, s.Close())
}

// Systemd holds the socket too: what a start that fails has not accepted waits for the next one.
func TestNothingIsAcceptedBeforeAServiceAsks(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer held.Close()
	file, err := held.(*net.TCPListener).File()
	testkit.Must(t, err)
	ours, err := net.FileListener(file)
	_ = file.Close() // ours is another descriptor
	testkit.Must(t, err)
	s := Take(ours, slog.New(slog.DiscardHandler))
	testkit.Dial(t, "tcp", held.Addr().String())
	<-time.After(20 * time.Millisecond)
	testkit.Must(t, s.Close())
	testkit.Must(t, held.(*net.TCPListener).SetDeadline(time.Now().Add(5*time.Second)))
	next, err := held.Accept()
	if os.IsTimeout(err) {
		t.Fatal("the connection was accepted, and lost")
	}
	testkit.Must(t, err)
	_ = next.Close()
}

func TestAnAlarmIsLeftAloneWhileItIsAsGoodAndNeverGoesOffTooEarly(t *testing.T) {
	var a alarm
	sets := 0
	var last time.Time
	set := func(at time.Time) {
		t.Helper()
		left, ns := time.Until(at), int64(0)
		if !at.IsZero() {
			ns = at.UnixNano()
		}
		testkit.Must(t, a.set(ns, func(d time.Time) error {
			sets++
			last = d
			return nil
		}))
		switch {
		case at.IsZero() && !last.IsZero(), !at.IsZero() && last.Before(at):
			t.Fatalf("goes off at %v, want %v or later", last, at)
		case !at.IsZero() && last.Sub(at) > left/8+time.Millisecond:
			t.Fatalf("goes off %v too late", last.Sub(at))
		}
	}
	now := time.Now()
	for range 100 { // requests within the eighth of their idle timeout
		now = now.Add(time.Millisecond)
		set(now.Add(2 * time.Minute))
	}
	if sets != 1 {
		t.Errorf("set %d times for timeouts that follow each other closely", sets)
	}
	set(now.Add(10 * time.Second)) // a shorter one, for the rest of a request
	set(now.Add(2 * time.Minute))
	set(time.Time{})
	set(time.Time{})
	if sets != 4 {
		t.Errorf("set %d times, want 4", sets)
	}
	a.at.Store(unset)
	set(time.Time{})
	if sets != 5 {
		t.Error("left alone after another has set the deadline")
	}
}
