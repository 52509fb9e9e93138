package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection of a service, which waits for a request by a read of a single byte, and
// reads the rest by larger ones.
type conn struct {
	net.Conn // socket, perhaps lightened, perhaps with TLS
	socket   net.Conn
	among    *conns

	mu   sync.Mutex // guards the field below, and the deadline of a drained connection
	idle bool       // waits for a request
}

// conns are the connections of a listener. A sync.Map takes 0.1 KB for each.
type conns struct {
	draining atomic.Bool

	sync.Mutex // guards the field below
	open       map[*conn]struct{}
}

// drainedIdle is how long a connection that is drained stays idle: a client in the middle of sending
// its next request has sent it by then.
const drainedIdle = 250 * time.Millisecond

// drain bounds the wait for a request, if it is under way. The service, which sets the deadline of
// the request, does so once Read has noted that it came.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		_ = c.SetReadDeadline(time.Now().Add(drainedIdle)) // a connection that is gone needs none
	}
}

func (c *conn) setIdle(idle bool) {
	c.mu.Lock()
	c.idle = idle
	c.mu.Unlock()
}

// Read reads, but returns io.EOF instead of waiting for a request for long once the listener ends:
// its service then closes the connection silently.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) != 1 {
		return c.Conn.Read(p)
	}
	if c.setIdle(true); c.among.draining.Load() {
		c.drain()
	}
	n, err := c.Conn.Read(p)
	if c.setIdle(false); n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.among.draining.Load() {
		err = io.EOF
	}
	return n, err
}

const (
	largeWrite = 64 << 10  // from how many bytes on a write counts as a large one
	turnBytes  = 256 << 10 // how much of one is written before others have their turn: all but large documents
)

// Write writes all of p, a large one in turns. After each whatever else is ready runs first: a socket
// can take megabytes at a time, and when dozens of large answers are written on one processor, the
// poll by which memory is trusted would wait for a round of all of them.
func (c *conn) Write(p []byte) (n int, err error) {
	if len(p) < largeWrite {
		return c.Conn.Write(p)
	}
	for n < len(p) && err == nil {
		var written int
		written, err = c.Conn.Write(p[n:min(n+turnBytes, len(p))])
		n += written
		runtime.Gosched()
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.among.Lock()
	delete(c.among.open, c)
	c.among.Unlock()
	return c.Conn.Close()
}
