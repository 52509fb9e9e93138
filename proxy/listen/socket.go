package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
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
