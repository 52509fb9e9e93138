package proxy

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"slices"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// New makes a server that is ready to Serve. It fails if the options are not usable.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	o.setDefaults()
	terms, err := newTerms(&o)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	s := &Server{options: o, terms: terms}
	for i := range routes {
		s.documents[i] = o.Documents[routes[i].resource]
	}
	s.base, s.stop = context.WithCancel(context.Background())
	s.app = s.newApp(&o)
	return s, nil
}

// newApp sets up Fiber. There is one handler and no router: comparing three paths is faster than
// routing.
func (s *Server) newApp(o *Options) *fiber.App {
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		DisableDefaultContentType:    true, // a 304 has none
		DisablePreParseMultipartForm: true,
		StrictRouting:                true,
		CaseSensitive:                true,
		ReadTimeout:                  o.ReadTimeout,
		IdleTimeout:                  o.IdleTimeout,
		ReadBufferSize:               o.MaxTargetBytes + o.MaxHeaderBytes,
		ReduceMemoryUsage:            true, // an idle connection has no buffers
		BodyLimit:                    o.MaxBodyBytes,
		Concurrency:                  o.MaxConnections + 1, // the listener enforces the limit, and answers in JSON
		ProxyHeader:                  o.ClientHeader,
		EnableIPValidation:           true,
		EnableTrustedProxyCheck:      true,
		TrustedProxies:               trustedProxies(o.TrustedProxies),
	})
	app.Use(func(c *fiber.Ctx) error {
		s.handle(connOf(c.Context()).request)
		return nil
	})

	server := app.Server()
	server.Handler = s.guard(app.Handler())
	server.HeaderReceived = func(h *fasthttp.RequestHeader) (none fasthttp.RequestConfig) {
		if !h.IsHTTP11() {
			h.Del(fasthttp.HeaderExpect) // HTTP/1.0 has no 100 (RFC 9110, section 10.1.1)
		}
		return none
	}
	server.ErrorHandler = s.failUnread
	server.SecureErrorLogMessage = true // other errors quote the header, which takes a millisecond
	server.CloseOnShutdown = true
	server.ConnState = func(c net.Conn, state fasthttp.ConnState) {
		if own := ownConn(c); own != nil {
			own.turn(state)
		}
	}
	return app
}

// trustedProxies are the networks and addresses in Fiber's form, for which connections over a Unix
// socket are 0.0.0.0.
func trustedProxies(networks []string) []string {
	networks = slices.Clone(networks)
	for i, n := range networks {
		if n == "unix" {
			networks[i] = "0.0.0.0"
		}
	}
	return networks
}

// guard handles what Fiber does not: an unknown method, which it would answer with plain text
// before any handler, and a panic, which would end the process.
func (s *Server) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	known := make(map[string]struct{}, len(fiber.DefaultMethods))
	for _, m := range fiber.DefaultMethods {
		known[m] = struct{}{}
	}
	return func(ctx *fasthttp.RequestCtx) {
		r := s.newRequest(ctx)
		defer func() {
			connOf(ctx).leave()
			if p := recover(); p != nil {
				s.panicked(r, p)
			}
			s.finish(r, ctx.Time())
		}()
		if _, ok := known[string(ctx.Method())]; ok {
			next(ctx)
			return
		}
		s.handle(r)
	}
}

// handle answers a request, with an error if there is no other answer.
func (s *Server) handle(r *request) {
	s.startSpan(r)
	if err := s.answer(r); err != nil {
		s.fail(r, err)
	}
	if s.draining.Load() {
		r.ctx.SetConnectionClose()
	}
}

// panicked turns a panic into a 500.
func (s *Server) panicked(r *request, p any) {
	s.options.Logger.Error("panic while answering", "panic", p, "stack", string(debug.Stack()))
	r.ctx.Response.Reset()
	r.ctx.Response.Header.SetNoDefaultContentType(true)
	if c := connOf(r.ctx); c != nil {
		c.prepare(nil)
	}
	s.fail(r, fmt.Errorf("%w: %v", errPanic, p))
}

// Serve answers requests on ln until Shutdown is called, and then returns nil; at once if it was
// called before. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if !s.register(ln) {
		_ = ln.Close() // nothing was accepted from it
		return nil
	}
	if err := s.app.Listener(&listener{Listener: ln, server: s}); err != nil {
		return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// register adds a listener, unless the server is closed.
func (s *Server) register(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners = append(s.listeners, ln)
	}
	return !s.closed
}

// SetDraining makes every answer from now on the last one on its connection.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown stops accepting, closes idle connections, and returns when the requests in flight have
// finished. If ctx ends first, the rest is abandoned and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	s.mu.Lock()
	s.closed = true
	listeners := s.listeners
	s.mu.Unlock()
	err := s.app.ShutdownWithContext(ctx)
	for _, ln := range listeners {
		_ = ln.Close() // one that Serve has not passed to Fiber yet; otherwise already closed
	}
	if err != nil {
		return fmt.Errorf("proxy: shut down: %w", err)
	}
	return nil
}
