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
