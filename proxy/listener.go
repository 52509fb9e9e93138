package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Serve answers requests on ln until Shutdown is called, and then returns nil; at once if it was
// called before. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	stop := context.AfterFunc(s.accepting, func() { _ = ln.Close() })
	defer stop()
	for s.accepting.Err() == nil {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
		}
		made := s.newClient(c)
		if s.open.Add(1) > int64(s.options.MaxConnections) {
			s.refuse(made)
			continue
		}
		// Not by fasthttp's Serve, whose pool of workers keeps a channel for each connection.
		go func() { _ = s.app.Server().ServeConn(made) }() // its error was answered, or the client is gone
	}
	return nil
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
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(c, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	s.failUnread(ctx, errTooManyConnections)
	ctx.SetConnectionClose()
	_ = c.SetDeadline(time.Now().Add(refusalTime)) // it fails if the connection is gone, as the write will
	if _, err := ctx.Response.WriteTo(c); err != nil {
		s.options.Logger.Debug("cannot refuse a connection", "error", err)
	}
}
