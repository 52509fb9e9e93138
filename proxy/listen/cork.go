package listen

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"vitrine/proxy/processors"
)

// A secureConn is a conn over TLS, which servers recognize by these methods.
type secureConn struct {
	*conn
	secure *tls.Conn
	cork   *cork // under it
}

// Handshake is bounded by the deadline for reads.
func (c *secureConn) Handshake() error {
	if err := c.reads.set(c.deadline.Load(), c.Conn.SetReadDeadline); err != nil {
		return err
	}
	c.cork.shake(true)
	defer c.cork.shake(false)
	return c.secure.HandshakeContext(context.Background()) // the deadline set above bounds it
}

// ConnectionState is that of TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// WriteBuffers writes all of pieces, in one system call for every 64 KB.
func (c *secureConn) WriteBuffers(pieces [][]byte) error {
	r, _ := records.Get().(*record)
	defer records.Put(r)
	c.cork.hold(r.encrypted[:0])
	defer c.cork.hold(nil)
	plain := r.plain[:0]
	for _, p := range pieces {
		for len(p) > 0 {
			n := min(len(p), cap(plain)-len(plain))
			plain, p = append(plain, p[:n]...), p[n:]
			if len(plain) < cap(plain) {
				break
			}
			if _, err := c.Write(plain); err != nil {
				return err
			}
			plain = plain[:0]
		}
	}
	if len(plain) > 0 {
		if _, err := c.Write(plain); err != nil {
			return err
		}
	}
	return c.cork.flush()
}

// A record has room for the content of a record of TLS, and for the records that are written
// together.
type record struct {
	plain     [16 << 10]byte
	encrypted [64 << 10]byte
}

var records = sync.Pool{New: func() any { return new(record) }}

// A cork is the socket under TLS. While it holds, it keeps what is written to it.
type cork struct {
	net.Conn
	mu   sync.Mutex // guards held: Close may write an alert at any time
	held []byte     // nil unless it holds; a record always fits

	handshakes     *processors.Half // of the socket
	shakes, placed bool             // in the handshake, and with a place; for the one goroutine that is in it
}

// shake is called before the handshake, and again after it.
func (c *cork) shake(begins bool) {
	c.leave()
	c.shakes = begins
}

// leave gives up the place, before whatever waits.
func (c *cork) leave() {
	if c.placed {
		c.placed = false
		c.handshakes.Give()
	}
}

// Read reads, and waits for a place in the handshake.
func (c *cork) Read(p []byte) (int, error) {
	c.leave()
	n, err := c.Conn.Read(p)
	if n > 0 && c.shakes {
		c.handshakes.Take()
		c.placed = true
	}
	return n, err
}

func (c *cork) hold(room []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = room
}

// Write writes, or keeps.
func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if len(p) > cap(c.held)-len(c.held) {
		if err := c.write(); err != nil {
			return 0, err
		}
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// flush writes what it keeps.
func (c *cork) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write()
}

func (c *cork) write() error {
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return err
}
