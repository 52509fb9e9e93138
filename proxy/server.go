package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"vitrine/proxy/metrics"
)

// Server answers the public routes.
type Server struct {
	app     *fiber.App
	log     *slog.Logger
	sources [len(routes)]Source
	terms   atomic.Pointer[terms]
	ids     *requestIDs
	access  *slog.Logger   // nil for no access log
	meter   *metrics.Meter // nil when nothing is counted
	tracer  trace.Tracer   // nil when nothing is traced

	proxies  proxies
	throttle *throttle // nil for none

	// base is what sources are asked under: a request's own context ends with the connection's buffers, not with
	// the client, and would not outlive the handler. It ends when Shutdown runs out of time.
	base context.Context
	stop context.CancelFunc

	maxTarget, maxHeader int // bytes
	descriptions         [len(routes)][maxIndent + 1][]byte

	draining atomic.Bool

	maxConns int64
	open     atomic.Int64 // connections
	noticed  atomic.Int64 // when the log was last told of too many, in Unix nanoseconds
	refusals chan struct{}
	refusing sync.WaitGroup

	mu        sync.Mutex // guards the two below
	listeners []net.Listener
	closed    bool // Shutdown was called
}

// New makes a server that is ready to Serve. It fails if the options are not usable.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	o.setDefaults()
	s := &Server{
		log:       o.Logger,
		access:    o.AccessLog,
		ids:       newRequestIDs(),
		meter:     o.Meter,
		tracer:    o.Tracer,
		maxTarget: o.MaxTargetBytes,
		maxHeader: o.MaxHeaderBytes,
		maxConns:  int64(o.MaxConnections),
		refusals:  make(chan struct{}, maxRefusals),
	}
	s.base, s.stop = context.WithCancel(context.Background())
	for i := range routes {
		s.sources[i] = o.Sources[routes[i].resource]
	}
	if err := s.SetTerms(o.terms()); err != nil {
		return nil, err
	}
	var err error
	if s.proxies, err = newProxies(o.ClientHeader, o.TrustedProxies); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if s.throttle, err = newThrottle(o.RequestsPerSecond, o.Burst); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if s.descriptions, err = descriptions(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	s.app = s.newApp(&o)
	return s, nil
}

// newApp sets Fiber up. There is one handler and no router: three paths are quicker compared than routed, and what
// is not one of them has an answer of its own kind.
func (s *Server) newApp(o *Options) *fiber.App {
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		DisableDefaultContentType:    true, // a 304 has none
		DisablePreParseMultipartForm: true,
		StrictRouting:                true,
		CaseSensitive:                true,
		ReadTimeout:                  o.ReadTimeout,
		WriteTimeout:                 o.WriteTimeout,
		IdleTimeout:                  o.IdleTimeout,
		ReadBufferSize:               o.MaxTargetBytes + o.MaxHeaderBytes,
		BodyLimit:                    o.MaxBodyBytes,
		Concurrency:                  o.MaxConnections + 1, // the listener keeps to the limit, and answers in JSON
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			s.fail(c.Context(), err)
			return nil
		},
	})
	app.Use(func(c *fiber.Ctx) error {
		s.handle(c.Context())
		return nil
	})

	server := app.Server()
	server.Handler = s.guard(app.Handler())
	server.ErrorHandler = s.failUnread
	server.CloseOnShutdown = true
	server.ConnState = func(c net.Conn, state fasthttp.ConnState) {
		if t, ok := c.(turns); ok {
			t.turn(state)
		}
	}
	return app
}

// guard is what Fiber leaves open: a method that it does not know, and would answer with a line of text before any
// handler is asked, and a panic, which would end the process.
func (s *Server) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	known := make(map[string]struct{}, len(fiber.DefaultMethods))
	for _, m := range fiber.DefaultMethods {
		known[m] = struct{}{}
	}
	return func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if r := recover(); r != nil {
				s.panicked(ctx, r)
			}
			s.logAccess(ctx, ctx.Time())
		}()
		if _, ok := known[string(ctx.Method())]; ok {
			next(ctx)
			return
		}
		s.handle(ctx)
	}
}

// handle answers one request, or says why not, and counts it.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	o := observed{target: metrics.Other}
	defer s.endSpan(ctx, &o)
	if err := s.answer(ctx, &o); err != nil {
		s.fail(ctx, err)
	}
	s.observe(ctx, o)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	o.done = true
}

// panicked turns a panic into a 500.
func (s *Server) panicked(ctx *fasthttp.RequestCtx, r any) {
	s.log.Error("panic while answering", "panic", r, "stack", string(debug.Stack()))
	ctx.Response.Reset()
	ctx.Response.Header.SetNoDefaultContentType(true)
	req := s.newRequest(ctx)
	defer req.release()
	s.writeCommon(ctx, req)
	s.fail(ctx, fmt.Errorf("%w: %v", errPanic, r))
	s.observe(ctx, observed{target: metrics.Other})
}

// Serve answers requests on ln until Shutdown is called, and then returns nil; at once if it was called before. It
// closes ln.
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

// register notes a listener, unless the server is closed.
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

// Shutdown stops accepting, closes idle connections, lets the requests under way finish, and returns when they have.
// If ctx ends first, the rest is given up, and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	s.mu.Lock()
	s.closed = true
	listeners := s.listeners
	s.mu.Unlock()
	err := s.app.ShutdownWithContext(ctx)
	s.refusing.Wait() // at most refusalTime
	for _, ln := range listeners {
		_ = ln.Close() // one that Serve had not handed to Fiber yet; closed already otherwise
	}
	if err != nil {
		return fmt.Errorf("proxy: shut down: %w", err)
	}
	return nil
}
