package proxy

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Serve answers requests on ln until Shutdown is called, and then returns nil; at once if it was
// called before. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	// Fiber does not close a listener that it gets too late.
	stop := context.AfterFunc(s.base, func() { _ = ln.Close() })
	defer stop()
	if err := s.app.Listener(&limited{Listener: ln, server: s}); err != nil {
		return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// A limited listener bounds the concurrent connections.
type limited struct {
	net.Listener
	server *Server
}

// Accept waits for a connection within the limit. Those beyond it are answered and closed.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := l.server
		if s.open.Add(1) <= int64(s.options.MaxConnections) {
			return s.newClient(c), nil
		}
		s.open.Add(-1)
		s.refuse(c)
	}
}

// Connections is the number of open connections.
func (s *Server) Connections() int { return int(s.open.Load()) }

// refusalTime bounds the refusal of a connection.
const refusalTime = 100 * time.Millisecond

// refuse answers a connection that cannot be served with 503, and closes it. Nothing is read from
// it, so the client's system may discard the answer; waiting to prevent that is not worth it. Over
// TLS there is no answer: nobody else is accepted meanwhile, and a handshake takes as long as the
// client likes.
func (s *Server) refuse(c net.Conn) {
	defer c.Close() //nolint:errcheck // it was answered, or is gone
	s.notice.Do(func() {
		s.options.Logger.Warn("too many connections: some are refused", "limit", s.options.MaxConnections)
	})
	if _, secure := c.(handshaker); secure {
		return
	}
	_ = c.SetDeadline(time.Now().Add(refusalTime)) // it fails if the connection is gone, as the write will
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(new(fasthttp.Request), c.RemoteAddr(), nil)
	ctx.Response.Header.SetNoDefaultContentType(true)
	s.failUnread(ctx, errTooManyConnections)
	ctx.SetConnectionClose()
	if _, err := ctx.Response.WriteTo(c); err != nil {
		s.options.Logger.Debug("cannot refuse a connection", "error", err)
	}
}
