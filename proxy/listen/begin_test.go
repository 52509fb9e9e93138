package listen

import (
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// Systemd holds the socket too: what a start that fails has not accepted waits for the next one.
func TestNothingIsAcceptedBeforeAServiceAsks(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	file, err := held.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := net.FileListener(file)
	_ = file.Close() // ours is another descriptor
	if err != nil {
		t.Fatal(err)
	}
	s := Take(ours, slog.New(slog.DiscardHandler))
	testkit.Dial(t, "tcp", held.Addr().String())
	<-time.After(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := held.(*net.TCPListener).SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	next, err := held.Accept()
	if os.IsTimeout(err) {
		t.Fatal("the connection was accepted, and lost")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = next.Close()
}
