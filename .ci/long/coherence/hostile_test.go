package coherence

import (
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/embedded"
	"vitrine/cache/redistest"
)

// TestHostileBytesEndNothing sends the embedded store what is no protocol, and opens more
// connections than it has places for, most of them silent after half a command.
func TestHostileBytesEndNothing(t *testing.T) {
	store, err := embedded.Start("127.0.0.1:0", nil)
	must(t, err)
	t.Cleanup(store.Close)
	client := redis.NewClient(&redis.Options{Addr: store.Addr(), ReadTimeout: 20 * time.Second})
	t.Cleanup(func() { _ = client.Close() })
	var memory runtime.MemStats
	var most uint64
	measure := func() {
		runtime.ReadMemStats(&memory)
		most = max(most, memory.HeapInuse+memory.StackInuse)
	}
	measure()
	before := most
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", store.Addr())
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		return conn.(*net.TCPConn)
	}
	var senders sync.WaitGroup
	for i := range uint64(4) {
		senders.Go(func() {
			chance := rand.New(rand.NewPCG(*seed, i))
			for range count(t, 100_000/4) {
				conn := dial()
				if _, err := conn.Write(redistest.Hostile(chance)); err == nil && chance.IntN(2) == 0 && conn.CloseWrite() == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
				_ = conn.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	for running := true; running; measure() {
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	must(t, client.HSet(t.Context(), "vitrine:x", "a", "b").Err())
	var held []net.Conn
	for range 10_000 {
		conn := dial()
		_, _ = io.WriteString(conn, "*3\r\n$4\r\nHSET\r\n$60000\r\nx")
		if held = append(held, conn); len(held) > 300 {
			_ = held[0].Close()
			held = held[1:]
		}
	}
	measure()
	must(t, client.HGet(t.Context(), "vitrine:x", "a").Err()) // on its connection
	for _, conn := range held {
		_ = conn.Close()
	}
	if t.Logf("%d MB more", (most-before)>>20); most-before > 64<<20 {
		t.Errorf("it took %d MB", (most-before)>>20)
	}
}
