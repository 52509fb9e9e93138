package listen

import (
	"crypto/tls"
	"net"

	"vitrine/proxy/processors"
)

// A Listener accepts the connections of a service, and knows those that are open. It implements
// [net.Listener].
type Listener struct {
	*Socket
	tls        *tls.Config     // nil without TLS
	handshakes processors.Half // while they use a processor
	conns      conns
}

// New makes a listener of a socket, with TLS unless config is nil.
func New(socket *Socket, config *tls.Config) *Listener {
	return &Listener{Socket: socket, tls: config, handshakes: processors.New(), conns: conns{open: map[*conn]struct{}{}}}
}

// Accept is that of the socket.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Socket.Accept()
	if err != nil {
		return nil, err
	}
	made := &conn{Conn: lighten(c), socket: c, among: &l.conns}
	var accepted net.Conn = made
	if l.tls != nil {
		accepted = overTLS(made, l.tls, l.handshakes)
	}
	l.conns.Lock()
	defer l.conns.Unlock()
	l.conns.open[made] = struct{}{}
	return accepted, nil
}

// Drain stops accepting, and has each connection end when it has been idle for a while: its service
// reads io.EOF. A connection that was accepted meanwhile is no exception.
func (l *Listener) Drain() error {
	l.conns.draining.Store(true)
	l.each((*conn).drain)
	return l.Close()
}

// CloseConns closes the connections that are left after Drain, in the middle of whatever they are
// doing, without a last message of TLS, for which the client may have no room. The service notices.
func (l *Listener) CloseConns() {
	l.each(func(c *conn) { _ = c.socket.Close() })
}

func (l *Listener) each(f func(*conn)) {
	l.conns.Lock()
	defer l.conns.Unlock()
	for c := range l.conns.open {
		f(c)
	}
}
