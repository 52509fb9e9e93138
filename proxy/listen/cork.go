package listen

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"

	"vitrine/proxy/processors"
)

// A cork is the socket under TLS. While it holds, it keeps what is written to it.
type cork struct {
	net.Conn
	mu   sync.Mutex    // guards held: Close may write an alert at any time
	held *bufio.Writer // nil unless it holds

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

// hold keeps what is written in w, or no longer if w is nil.
func (c *cork) hold(w *bufio.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held = w; w != nil {
		w.Reset(c.Conn)
	}
}

// Write writes, or keeps.
func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return c.Conn.Write(p)
	}
	return c.held.Write(p)
}

// flush writes what it keeps.
func (c *cork) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.Flush()
}

// A record has room for the content of a record of TLS, and for the records that are written
// together.
type record struct{ plain, encrypted *bufio.Writer }

var records = sync.Pool{New: func() any {
	return &record{bufio.NewWriterSize(nil, 16<<10), bufio.NewWriterSize(nil, 64<<10)}
}}

// writeOver writes all of pieces over TLS, in one system call for every 64 KB.
func (c *cork) writeOver(secure *tls.Conn, pieces [][]byte) error {
	r, _ := records.Get().(*record)
	r.plain.Reset(secure)
	c.hold(r.encrypted)
	defer func() {
		c.hold(nil)
		r.plain.Reset(nil) // the pool must not keep a connection
		r.encrypted.Reset(nil)
		records.Put(r)
	}()
	for _, p := range pieces {
		_, _ = r.plain.Write(p) // Flush returns its error
	}
	if err := r.plain.Flush(); err != nil {
		return err
	}
	return c.flush()
}
