package listen

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair is a connection as a service has it, and the client's end.
func pair(t *testing.T) (served *lean, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	served = newLean(accepted).(*lean)
	client = dialled.(*net.TCPConn)
	t.Cleanup(func() { _ = client.Close() }) // a second time in some tests
	t.Cleanup(func() { _ = served.Close() })
	return served, client
}

func TestPiecesArriveWholeAtAClientThatReadsLate(t *testing.T) {
	served, client := pair(t)
	random := rand.New(rand.NewPCG(1, 2))
	var pieces [][]byte
	var want []byte
	for i := range 3 * mostPieces {
		piece := bytes.Repeat([]byte{byte(i)}, random.IntN(16<<10)*random.IntN(2)) // every other one is empty
		pieces, want = append(pieces, piece), append(want, piece...)
	}
	got := make(chan []byte, 1)
	go func() {
		<-time.After(50 * time.Millisecond) // more is written than sockets hold
		all, _ := io.ReadAll(client)        // what is missing is found below
		got <- all
	}()
	if n, err := served.write(pieces...); n != len(want) || err != nil {
		t.Errorf("wrote %d of %d: %v", n, len(want), err)
	}
	_ = served.Close()
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes arrived")
	}
}

func TestAWriteEndsAtItsDeadlineAndWithItsConnection(t *testing.T) {
	served, client := pair(t)
	large := make([]byte, 32<<20) // more than sockets hold
	if err := served.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := served.Write(large); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(large) {
		t.Errorf("nobody reads: %d, %v", n, err)
	}
	if err := served.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := client.SetLinger(0); err != nil { // so that closing resets
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = client.Close() }) // the write waits, most likely
	if _, err := served.Write(large); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the client is gone: %v", err)
	}
	_ = served.Close()
	if _, err := served.Write(large); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestARushIsOnWhileRequestsComeFast(t *testing.T) {
	var r rush
	now := time.Hour
	for _, c := range []struct {
		pause time.Duration
		on    bool
	}{{rushPause / 2, true}, {rushPause * 2, false}, {rushPause / 2, true}} {
		for range 2 * rushWaits {
			now += c.pause
			r.wait(int64(now))
		}
		if r.on.Load() != c.on {
			t.Errorf("a request each %v: a rush is %v", c.pause, r.on.Load())
		}
	}
}
