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
func pair(t *testing.T) (served *conn, client *net.TCPConn) {
	t.Helper()
	l := opened(t, nil)
	client = testkit.Dial(t, "tcp", l.Addr().String()).(*net.TCPConn)
	accepted, err := l.Accept()
	testkit.Must(t, err)
	served = accepted.(*conn)
	testkit.Must(t, served.SetReadDeadline(time.Now().Add(testkit.Patience)))
	t.Cleanup(func() { _ = served.Close() })
	return served, client
}

func TestWritesOfAnySizeArriveWholeAtAClientThatReadsLate(t *testing.T) {
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
		piece := left[:min(random.IntN(128<<10)*random.IntN(2), len(left))] // every other one is empty
		if n, err := served.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(piece), err)
		}
		left = left[len(piece):]
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
	piece := make([]byte, 700)
	if n := testing.AllocsPerRun(100, func() {
		_, err := served.Write(piece)
		testkit.Must(t, err)
	}); n != 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
}

// What was kept for more to follow is sent before the service waits, and before it closes.
func TestAWriteOfAFullBufferIsNotHeldBack(t *testing.T) {
	served, client := pair(t)
	full := bytes.Repeat([]byte("x"), Buffer)
	write := func() {
		t.Helper()
		n, err := served.Write(full)
		if testkit.Must(t, err); n != len(full) {
			t.Errorf("%d bytes written", n)
		}
	}
	write()
	go func() {
		_, err := io.ReadFull(client, make([]byte, Buffer))
		_, err2 := client.Write([]byte{1})
		testkit.Check(t, errors.Join(err, err2))
	}()
	_, err := served.Read(make([]byte, 1))
	testkit.Must(t, err)
	write()
	testkit.Must(t, served.Close())
	if all, err := io.ReadAll(client); err != nil || !bytes.Equal(all, full) {
		t.Errorf("%d bytes arrived before the end, %v", len(all), err)
	}
}

// While a client reads nothing, the service keeps nothing but the rest of a large answer.
func TestASlowReaderHoldsUpNoBuffer(t *testing.T) {
	served, client := pair(t)
	_, err := served.Write(make([]byte, Buffer))
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := served.Write(make([]byte, 32<<20)) // more than sockets hold
		ended <- err
	}()
	_, err = io.ReadFull(client, make([]byte, Buffer+1))
	testkit.Must(t, err)
	if served.Conn.(*lean).head != nil {
		t.Error("a buffer is held up")
	}
	_ = client.Close()
	if err := testkit.Receive(t, ended); err == nil {
		t.Error("it goes on")
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

// Whoever else is ready has its turn on a single processor.
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
	_, err := served.Write(large)
	testkit.Must(t, err)
	over.Store(true)
	if gap := testkit.Receive(t, most); gap > 4*turnBytes || gap == 0 { // one, or some when its reader wakes
		t.Errorf("%d bytes were written in one turn, want about %d", gap, turnBytes)
	}
	_ = served.Close()
	if !bytes.Equal(testkit.Receive(t, got), large) {
		t.Error("other bytes arrived")
	}
}
