//go:build !race

package listen

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// pair is a connection as a service has it, and the client's end.
func pair(t *testing.T) (served *lean, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	client = testkit.Dial(t, "tcp", l.Addr().String()).(*net.TCPConn)
	accepted, err := l.Accept()
	testkit.Must(t, err)
	served = newLean(accepted)
	t.Cleanup(func() { _ = served.Close() })
	return served, client
}

func TestPiecesArriveWholeAtAClientThatReadsLate(t *testing.T) {
	served, client := pair(t)
	random := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 12<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	got := make(chan []byte, 1)
	go func() {
		<-time.After(50 * time.Millisecond) // more is written than sockets hold
		all, _ := io.ReadAll(client)        // what is missing is found below
		got <- all
	}()
	for left := want; len(left) > 0; {
		var pieces [][]byte
		size := 0
		for range 64 {
			n := min(random.IntN(4<<10)*random.IntN(2), len(left)) // every other one is empty
			pieces, left, size = append(pieces, left[:n]), left[n:], size+n
		}
		if err := served.write(pieces); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	_ = served.Close()
	if !bytes.Equal(testkit.Receive(t, got), want) {
		t.Error("other bytes arrived")
	}
}

func TestAWriteEndsAtItsDeadlineAndWithItsConnection(t *testing.T) {
	served, client := pair(t)
	large := make([]byte, 32<<20) // more than sockets hold
	testkit.Must(t, served.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	if n, err := served.Write(large); !errors.Is(err, os.ErrDeadlineExceeded) || n == len(large) {
		t.Errorf("nobody reads: %d, %v", n, err)
	}
	testkit.Must(t, served.SetWriteDeadline(time.Time{}))
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

func TestAWriteAllocatesNothing(t *testing.T) {
	served, _ := pair(t)
	pieces := [][]byte{make([]byte, 700), make([]byte, 50)}
	if n := testing.AllocsPerRun(100, func() {
		testkit.Must(t, served.write(pieces))
	}); n != 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
}

// counting is a connection that counts what is written.
type counting struct {
	net.Conn
	written atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// The heartbeat, by whose lateness memory is no longer trusted, has its turn on a single processor.
func TestALargeAnswerArrivesWholeAndIsWrittenInTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	served, client := pair(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(client) // what is missing is found below
		got <- all
	}()
	count := &counting{Conn: served.Conn}
	served.Conn = count
	var over atomic.Bool
	most := make(chan int64, 1)
	go func() { // whatever else is ready
		seen, gap := int64(0), int64(0)
		for ; !over.Load(); runtime.Gosched() {
			now := count.written.Load()
			seen, gap = now, max(gap, now-seen)
		}
		most <- gap
	}()
	testkit.Must(t, served.write([][]byte{large[:10], large[10:]}))
	over.Store(true)
	if gap := testkit.Receive(t, most); gap > 4*turnBytes || gap == 0 { // one, or some when its reader wakes
		t.Errorf("%d bytes were written in one turn, want about %d", gap, turnBytes)
	}
	_ = served.Close()
	if !bytes.Equal(testkit.Receive(t, got), large) {
		t.Error("other bytes arrived")
	}
}
