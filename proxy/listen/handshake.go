package listen

import (
	"context"
	"crypto/tls"
	"net"

	"vitrine/proxy/processors"
)

// A secureConn is a conn over TLS, which servers recognize by these methods.
type secureConn struct {
	*conn
	secure *tls.Conn
	socket *handshaking // under it
}

// overTLS is c with TLS from now on. Handshakes share places.
func overTLS(c *conn, config *tls.Config, places processors.Half) *secureConn {
	socket := &handshaking{Conn: c.Conn, places: places}
	secure := tls.Server(socket, config)
	c.Conn = secure
	return &secureConn{conn: c, secure: secure, socket: socket}
}

// Handshake is bounded by the deadline for reads.
func (c *secureConn) Handshake() error {
	c.socket.shakes = true
	defer func() {
		c.socket.shakes = false
		c.socket.leave()
	}()
	return c.secure.HandshakeContext(context.Background()) // the deadline set above bounds it
}

// ConnectionState is that of TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// handshaking is the socket under TLS. Between two reads of a handshake it has a place.
type handshaking struct {
	net.Conn
	places         processors.Half
	shakes, placed bool // in the handshake, and with a place; for the one goroutine that is in it
}

// leave gives up the place.
func (c *handshaking) leave() {
	if c.placed {
		c.placed = false
		c.places.Give()
	}
}

// Read reads, and in the handshake waits for a place.
func (c *handshaking) Read(p []byte) (int, error) {
	c.leave() // before it waits for the client
	n, err := c.Conn.Read(p)
	if n > 0 && c.shakes {
		c.places.Take()
		c.placed = true
	}
	return n, err
}
