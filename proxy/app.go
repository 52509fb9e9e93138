// Package proxy answers the public routes with prepared responses, as docs/interface.md describes.
// docs/design.md follows a request through it. Only this package uses Fiber.
package proxy

import (
	"context"
	"fmt"
	"slices"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/upstream/shape"
)

// newApp registers the middleware in the order in which a request passes it, and the routes. A
// failure is a returned error, which observe has answered by the one table (errors.go).
func (s *Server) newApp() *fiber.App {
	app := fiber.New(s.fiberConfig())
	app.Use(
		s.observe, // reads the header of a request, and counts and logs the answer
		s.rescue,  // makes an error of a panic
		s.check,   // refuses what fasthttp lets through
	)
	app.All("/gvapp/", s.document(shape.Catalogue)) // answer.go
	app.All("/cms/rules/", s.document(shape.Rules))
	app.All("/gvapp/singlebanner", s.document(shape.Banners))

	app.All("/gvapp", redirect("/gvapp/"))
	app.All("/cms/rules", redirect("/cms/rules/"))
	app.All("/gvapp/singlebanner/", redirect("/gvapp/singlebanner"))

	app.Use(func(*fiber.Ctx) error { return errNoRoute })
	return app
}

func (s *Server) fiberConfig() fiber.Config {
	o := &s.options
	return fiber.Config{
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			s.fail(requestOf(c), err)
			return nil
		},
		StrictRouting:           true,
		CaseSensitive:           true,
		UnescapePath:            true, // as Django has it; dots and double slashes are not resolved
		ProxyHeader:             o.ClientHeader,
		EnableIPValidation:      true,
		EnableTrustedProxyCheck: true,
		TrustedProxies:          trustedProxies(o.TrustedProxies),
	}
}

// New makes a server for [Connections]. It fails if the options are not usable.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	terms, err := newTerms(&o)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	s := &Server{
		options: o, terms: terms, routes: newRoutes(&o), unrouted: o.Meter.Of(""),
	}
	s.base, s.stop = context.WithCancel(context.Background())
	s.app = s.newApp()
	s.route = s.app.Handler()
	return s, nil
}

// handle answers a request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	if !ctx.IsGet() && routeUnknown(s.app, ctx) {
		return
	}
	s.route(ctx)
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
