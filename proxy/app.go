package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"vitrine/proxy/negotiate"
	"vitrine/proxy/operator/metrics"
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
	s := &Server{
		options: o, terms: terms, routes: newRoutes(&o, terms), unrouted: o.Meter.Of(""),
		notice: rate.Sometimes{Interval: time.Minute},
	}
	s.base, s.stop = context.WithCancel(context.Background())
	s.accepting, s.close = context.WithCancel(s.base)
	s.app = s.newApp()
	return s, nil
}

// newApp registers the routes. A request passes what is used here in this order. An error ends it,
// and one table says how it is answered (errors.go).
func (s *Server) newApp() *fiber.App {
	app := fiber.New(s.fiberConfig())
	app.Use(
		s.observe, // counts, traces and logs it, whatever comes of it
		s.rescue,  // makes an error of a panic
		s.check,   // refuses what fasthttp lets through
	)
	for _, r := range s.routes {
		app.All(r.path, s.document(r))
		app.All(r.otherPath(), redirect(r.path))
	}
	app.Use(func(*fiber.Ctx) error { return errNoRoute })
	s.setUp(app.Server(), app)
	return app
}

func (s *Server) fiberConfig() fiber.Config {
	o := &s.options
	return fiber.Config{
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			s.fail(requestOf(c), err)
			return nil
		},
		DisableDefaultContentType:    true, // a 304 has none
		DisablePreParseMultipartForm: true,
		StrictRouting:                true,
		CaseSensitive:                true,
		UnescapePath:                 true, // as Django has it; dots and double slashes are not resolved
		ReadTimeout:                  o.ReadTimeout,
		IdleTimeout:                  o.IdleTimeout,
		ReadBufferSize:               o.MaxTargetBytes + o.MaxHeaderBytes,
		ReduceMemoryUsage:            true, // an idle connection has no buffers
		BodyLimit:                    o.MaxBodyBytes,
		Concurrency:                  math.MaxInt32, // Serve has the limit, and answers in JSON
		ProxyHeader:                  o.ClientHeader,
		EnableIPValidation:           true,
		EnableTrustedProxyCheck:      true,
		TrustedProxies:               trustedProxies(o.TrustedProxies),
	}
}

// setUp sets what Fiber has no setting for.
func (s *Server) setUp(server *fasthttp.Server, app *fiber.App) {
	route := app.Handler()
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		if !ctx.IsGet() && routeUnknown(app, ctx) {
			return
		}
		route(ctx)
	}
	server.HeaderReceived = func(h *fasthttp.RequestHeader) (none fasthttp.RequestConfig) {
		s.options.expect(h)
		return none
	}
	server.ErrorHandler = s.failUnread
	server.SecureErrorLogMessage = true // other errors quote the header, which takes a millisecond
	server.ConnState = func(c net.Conn, state fasthttp.ConnState) { clientIn(c).turn(state) }
}

// routeUnknown routes a request whose method Fiber does not know as one that no route allows, and
// reports whether it was one. It is the exception: Fiber would answer by itself, as text.
func routeUnknown(app *fiber.App, ctx *fasthttp.RequestCtx) bool {
	if slices.Contains(fiber.DefaultMethods, string(ctx.Method())) {
		return false
	}
	c := app.AcquireCtx(ctx)
	defer app.ReleaseCtx(c)
	c.Method(fiber.MethodPatch)
	_ = c.RestartRouting() // observe has answered its error
	return true
}

// expect leaves the Expect of a request to fasthttp, which compares it with case, only where a 100
// is due (RFC 9110, section 10.1.1): in HTTP/1.1, if content that is not refused is announced.
func (o *Options) expect(h *fasthttp.RequestHeader) {
	value := h.Peek(fasthttp.HeaderExpect)
	if len(value) == 0 {
		return
	}
	size := h.ContentLength() // -1 for chunks, -2 for none
	if h.IsHTTP11() && (size == -1 || 0 < size && size <= o.MaxBodyBytes) && negotiate.HasToken(value, "100-continue") {
		h.Set(fasthttp.HeaderExpect, "100-continue")
	} else {
		h.Del(fasthttp.HeaderExpect)
	}
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

// observe reads the header of a request, has it answered, and records the outcome.
func (s *Server) observe(c *fiber.Ctx) error {
	r := s.newRequest(c.Context())
	r.read = true
	c.Context().SetUserValue(requestKey{}, r)
	if s.options.Tracer != nil {
		r.startSpan(s.options.Tracer)
	}
	err := c.Next()
	if err != nil {
		err = c.App().ErrorHandler(c, err)
	}
	if s.draining.Load() {
		r.ctx.SetConnectionClose()
	}
	clientOf(r.ctx).leave()
	s.finish(r, r.ctx.Time())
	return err
}

// finish ends a request whose answer is ready: it is counted, traced and logged, and its writing
// gets a deadline. It began when all of it had arrived; the zero time means an incomplete request.
func (s *Server) finish(r *request, began time.Time) {
	now, took := time.Now(), time.Duration(0)
	if !began.IsZero() {
		took = now.Sub(began)
	}
	if r.span != nil {
		r.endSpan()
	}
	answers := s.unrouted
	if r.route != nil {
		answers = r.route.answers
	}
	answers.Observe(metrics.Answer{Cache: r.cache, Collapsed: r.collapsed, Code: r.ctx.Response.StatusCode(), Took: took})
	if s.options.AccessLog != nil {
		s.logAccess(r, took)
	}
	clientOf(r.ctx).limitWrites(now)
	r.release()
}

// failUnread answers a request that fasthttp could not read; the connection is closed after it.
func (s *Server) failUnread(ctx *fasthttp.RequestCtx, err error) {
	r := s.newRequest(ctx)
	r.read = len(ctx.Request.Header.RawHeaders()) > 0
	f := framingOf(ctx)
	s.fail(r, unreadError(f, err))
	ctx.Response.SkipBody = ctx.IsHead() || f.isHead() // fasthttp has forgotten most headers it refused
	if ctx.Response.SkipBody {
		r.bytes = 0
	}
	s.finish(r, time.Time{})
}

// unreadError maps an error of reading a request to the table's.
func unreadError(f *framing, err error) error {
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSmall := errors.AsType[*fasthttp.ErrSmallBuffer](err)
	switch {
	case errors.Is(err, errTooManyConnections):
		return err
	case f.told:
		return f.refused
	case isSmall && f.part == requestLine:
		return errTargetTooLong // the buffer is full without a complete line
	case isSmall:
		return errHeaderTooLong
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case isNet && netErr.Timeout():
		return errSlowClient
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", errMalformed)
	}
	return errMalformed
}

// rescue makes an error of a panic, which would end the process.
func (s *Server) rescue(c *fiber.Ctx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.Error("panic while answering", "panic", p, "stack", string(debug.Stack()))
			c.Response().Reset()
			c.Response().Header.SetNoDefaultContentType(true)
			clientOf(c.Context()).prepare(nil)
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return c.Next()
}

// http1 is the beginning of the only major version supported.
var http1 = []byte("HTTP/1.")

// check refuses what fasthttp lets through.
func (s *Server) check(c *fiber.Ctx) error {
	r, h := requestOf(c), &c.Request().Header
	if r.closes || r.malformed {
		r.ctx.SetConnectionClose()
	}
	switch {
	case !bytes.HasPrefix(h.Protocol(), http1):
		return errVersion
	case r.malformed:
		return errMalformed
	case len(h.RequestURI()) > s.options.MaxTargetBytes:
		return errTargetTooLong
	case len(h.RawHeaders()) > s.options.MaxHeaderBytes:
		return errHeaderTooLong
	}
	return c.Next()
}
