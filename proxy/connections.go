package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"vitrine/proxy/processors"
	"vitrine/proxy/swap"
)

// Connections are those of clients. Each request is answered by the present [Server], which
// [Connections.Swap] replaces while they stay. Make them with [NewConnections].
type Connections struct {
	clients
	http    *fasthttp.Server
	present atomic.Pointer[Server]

	accepting context.Context // until Shutdown
	close     context.CancelFunc
	draining  atomic.Bool
	open      atomic.Int64   // connections
	alive     swap.UnderWay  // these, and the listeners, one of which may be giving out its last connection
	notice    rate.Sometimes // logs that there are too many
}

// NewConnections are connections whose requests s answers at first. They keep the limits of s. An
// answer is written from a buffer of so many bytes; what is beyond it is written beside it.
func NewConnections(s *Server, buffer int) *Connections {
	cs := &Connections{clients: clients{limits: s.options.Limits, large: processors.New()}, notice: rate.Sometimes{Interval: time.Minute}}
	cs.present.Store(s)
	cs.accepting, cs.close = context.WithCancel(context.Background())
	cs.http = &fasthttp.Server{
		Handler:      cs.handle,
		ErrorHandler: cs.failUnread,
		HeaderReceived: func(h *fasthttp.RequestHeader) (none fasthttp.RequestConfig) {
			cs.expect(h)
			return none
		},
		ReadTimeout:                  cs.limits.ReadTimeout,
		IdleTimeout:                  cs.limits.IdleTimeout,
		ReadBufferSize:               cs.limits.MaxTargetBytes + cs.limits.MaxHeaderBytes,
		WriteBufferSize:              buffer,
		MaxRequestBodySize:           cs.limits.MaxBodyBytes,
		Concurrency:                  math.MaxInt32, // Serve has the limit, and answers in JSON
		ReduceMemoryUsage:            true,          // an idle connection has no buffers, and is read by a byte
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true, // a 304 has none
		SecureErrorLogMessage:        true, // other errors quote the header, which takes a millisecond
	}
	return cs
}

// Swap has next answer from now on. The server before answers the requests that it has begun, until
// [Server.Drain] returns.
func (cs *Connections) Swap(next *Server) { cs.present.Store(next) }

// handle has the present server answer a request.
func (cs *Connections) handle(ctx *fasthttp.RequestCtx) {
	s := swap.Begin(&cs.present)
	defer s.End()
	s.handle(ctx)
	if cs.draining.Load() {
		ctx.SetConnectionClose()
	}
}

// failUnread has the present server answer a request that fasthttp could not read.
func (cs *Connections) failUnread(ctx *fasthttp.RequestCtx, err error) {
	s := swap.Begin(&cs.present)
	defer s.End()
	s.failUnread(ctx, err)
}

// log is that of the present server.
func (cs *Connections) log() *slog.Logger { return cs.present.Load().options.Logger }

// SetDraining makes every answer from now on the last one on its connection.
func (cs *Connections) SetDraining() { cs.draining.Store(true) }

// Shutdown stops accepting, and returns when no connection is left, or with ctx's error. Answers
// close their connections; the listener closes the idle ones.
func (cs *Connections) Shutdown(ctx context.Context) error {
	cs.SetDraining()
	cs.close()
	defer cs.present.Load().stop()
	return cs.alive.Drain(ctx)
}

// Serve has requests on ln answered until Shutdown is called, and then returns nil; at once if it
// was called before. It closes ln.
func (cs *Connections) Serve(ln net.Listener) error {
	cs.alive.Begin()
	defer cs.alive.End()
	stop := context.AfterFunc(cs.accepting, func() { _ = ln.Close() })
	defer stop()
	for cs.accepting.Err() == nil {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
		}
		made := cs.newClient(c)
		if cs.open.Add(1) > int64(cs.limits.MaxConnections) {
			cs.refuse(made)
			continue
		}
		// Not by fasthttp's Serve, whose pool of workers keeps a channel for each connection.
		cs.alive.Begin()
		go func() {
			defer cs.alive.End()
			_ = cs.http.ServeConn(made) // its error was answered, or the client is gone
			clientIn(made).leave()
			cs.open.Add(-1)
		}()
	}
	return nil
}

// Count is the number of open connections.
func (cs *Connections) Count() int { return int(cs.open.Load()) }

// refusalTime bounds the refusal of a connection.
const refusalTime = 100 * time.Millisecond

// refuse answers a connection that cannot be served with 503, and closes it. Nothing is read from
// it, so the client's system may discard the answer; waiting to prevent that is not worth it. Over
// TLS there is no answer: no connection is accepted meanwhile, and a handshake takes as long as the
// client likes.
func (cs *Connections) refuse(c net.Conn) {
	defer cs.open.Add(-1)
	defer c.Close() //nolint:errcheck // it was answered, or is gone
	cs.notice.Do(func() {
		cs.log().Warn("too many connections: some are refused", "limit", cs.limits.MaxConnections)
	})
	if _, secure := c.(handshaker); secure {
		return
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(c, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	cs.failUnread(ctx, errTooManyConnections)
	ctx.SetConnectionClose()
	_ = c.SetDeadline(time.Now().Add(refusalTime)) // it fails if the connection is gone, as the write will
	if _, err := ctx.Response.WriteTo(c); err != nil {
		cs.log().Debug("cannot refuse a connection", "error", err)
	}
}
