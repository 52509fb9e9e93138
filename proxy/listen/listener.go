package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/proxy/processors"
)

// A Socket accepts connections for any service that waits for one.
type Socket struct {
	listener net.Listener
	log      *slog.Logger
	conns    chan passed   // unbuffered, so that no connection is waiting without a service
	begin    sync.Once     // accepting, or ending without it
	closed   chan struct{} // by Close
	ended    chan struct{} // accepting has ended
	close    func() error  // once

	handshakes *processors.Half // for those of TLS, while they use a processor
}

// passed is a connection on its way to a service: just accepted, or from another service.
type passed struct {
	net.Conn
	begun bool
}

// Pauses after a failed accept, as in net/http.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// Open listens on HOST:PORT, or on the unix socket unix:PATH. A socket file that nothing listens on
// is replaced; otherwise, or if the file is not a socket, the error is syscall.EADDRINUSE. Nothing
// is accepted before a [Listener] asks, and log receives failures.
func Open(ctx context.Context, address string, log *slog.Logger) (*Socket, error) {
	l, err := open(ctx, address)
	if err != nil {
		return nil, err
	}
	return Take(l, log), nil
}

// Take is [Open] for a listener that somebody else has opened.
func Take(l net.Listener, log *slog.Logger) *Socket {
	s := &Socket{
		listener: l, log: log,
		conns: make(chan passed), closed: make(chan struct{}), ended: make(chan struct{}),
		handshakes: new(processors.Half),
	}
	s.close = sync.OnceValue(func() error {
		close(s.closed)
		err := l.Close()
		s.begin.Do(func() { close(s.ended) })
		<-s.ended
		return err
	})
	return s
}

// Addr is the socket's address.
func (s *Socket) Addr() net.Addr { return s.listener.Addr() }

// Close stops accepting, and removes a unix socket's file. Listeners end; their connections do not.
func (s *Socket) Close() error { return s.close() }

// accept passes connections on until the socket is closed. Every other error of accept is
// temporary: a lack of descriptors or memory, or a client that is gone (ECONNABORTED, EPROTO).
func (s *Socket) accept() {
	defer close(s.ended)
	pause, failures := firstPause, 0
	for {
		c, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded): // by finish
			return
		case err != nil:
			if failures++; failures == 1 {
				s.log.Warn("cannot accept connections, retrying", "address", s.Addr().String(), "error", err)
			}
			select {
			case <-time.After(pause):
			case <-s.closed:
				return
			}
			pause = min(2*pause, mostPause)
			continue
		case failures > 0:
			s.log.Info("accepting connections again", "address", s.Addr().String(), "failures", failures)
			pause, failures = firstPause, 0
		}
		s.pass(passed{Conn: newLean(c)})
	}
}

// finish stops accepting, and returns when a service has taken every connection that was accepted
// before, or when ctx ends. The socket stays open: systemd may hold it for the next process.
func (s *Socket) finish(ctx context.Context) {
	if l, ok := s.listener.(interface{ SetDeadline(time.Time) error }); !ok || l.SetDeadline(time.Unix(1, 0)) != nil {
		return
	}
	s.begin.Do(func() { close(s.ended) })
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
}

// pass waits for a service that takes c, and closes c if there is none left.
func (s *Socket) pass(c passed) {
	select {
	case s.conns <- c:
	case <-s.closed:
		_ = c.Close() // no service is left to answer
	}
}

// A Listener is one service's share of a [Socket]. It implements [net.Listener].
type Listener struct {
	socket *Socket
	tls    *tls.Config // nil without TLS
	once   sync.Once
	closed chan struct{}
	handed atomic.Bool       // connections go to the next service; set with mu held
	end    func(*conn) error // release, bound once

	mu    sync.Mutex // guards the field below
	conns map[*conn]struct{}
}

const (
	// lookEvery is how often a listener that ends looks for idle connections.
	lookEvery = 10 * time.Millisecond
	// idleLooks is how many looks a connection must be idle before it is closed without a
	// successor: a client in the middle of sending its next request has sent it by then.
	idleLooks = 25
)

// Listen makes a service's share of the socket, with TLS unless config is nil.
func (s *Socket) Listen(config *tls.Config) *Listener {
	l := &Listener{socket: s, tls: config, closed: make(chan struct{}), conns: map[*conn]struct{}{}}
	l.end = l.release
	return l
}

// Accept waits for a connection. Its error is net.ErrClosed once the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // even if there are connections
		return nil, net.ErrClosed
	default:
	}
	l.socket.begin.Do(func() { go l.socket.accept() })
	select {
	case <-l.closed:
	case <-l.socket.closed:
	case c := <-l.socket.conns:
		if taken := l.take(c); taken != nil {
			return taken, nil
		}
		l.socket.pass(c)
	}
	return nil, net.ErrClosed
}

// Addr is the socket's address.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Close stops accepting. Accepted connections and the socket stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// take makes p one of the listener's connections; nil if they are handed over: the listener may
// have been closed between the choice of p and now, and HandOver have counted.
func (l *Listener) take(p passed) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handed.Load() {
		return nil
	}
	if l.tls != nil && !p.begun {
		p.Conn = tls.Server(&cork{Conn: p.Conn, handshakes: l.socket.handshakes}, l.tls)
	}
	c := &conn{Conn: p.Conn, end: l.end}
	l.conns[c] = struct{}{}
	if secure, ok := p.Conn.(*tls.Conn); ok {
		under, _ := secure.NetConn().(*cork)
		return &secureConn{conn: c, secure: secure, cork: under}
	}
	return c
}

// HandOver closes the listener and passes its connections to the socket's other listener, each as
// soon as it is between two requests. It returns when none is left, or with ctx's error.
func (l *Listener) HandOver(ctx context.Context) error {
	l.mu.Lock()
	l.handed.Store(true)
	l.mu.Unlock()
	return l.leave(ctx, 0)
}

// Drain closes the listener, which has to be the socket's last, and its connections, each when it
// has been idle for a while. It returns when none is left, or with ctx's error. A connection that
// the socket has accepted is served, since the client has sent its request; those that come later
// are left to the process that has the socket next, if systemd holds it.
func (l *Listener) Drain(ctx context.Context) error {
	l.socket.finish(ctx)
	return l.leave(ctx, idleLooks)
}

func (l *Listener) leave(ctx context.Context, looks int32) error {
	_ = l.Close() // it cannot fail
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		l.mu.Lock()
		for c := range l.conns {
			c.look(looks)
		}
		left := len(l.conns)
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// CloseConns closes the connections that are left after HandOver or Drain, in the middle of
// whatever they are doing.
func (l *Listener) CloseConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		under := c.Conn
		if secure, ok := under.(*tls.Conn); ok {
			under = secure.NetConn() // without a last message, for which the client may have no room
		}
		_ = under.Close() // its service then closes c
	}
}

// release closes a connection, or hands it over.
func (l *Listener) release(c *conn) error {
	defer l.forget(c)
	if !l.handed.Load() || !c.free() {
		return c.Conn.Close()
	}
	l.socket.pass(passed{Conn: c.Conn, begun: true})
	return nil
}

func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
