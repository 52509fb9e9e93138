package listen

import (
	"bufio"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"vitrine/cmd/testkit"
)

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
	if err := v.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	_ = v.http.Shutdown()
	if err := testkit.Receive(t, v.ended); err != nil {
		t.Log(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
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
		if err != nil {
			t.Error(err)
		}
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
	if err := testkit.Receive(t, drained); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
