package proxy

import (
	"encoding/json"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/upstream/shape"
)

// writeCommon writes the fields of every answer without a document, and reports whether CORS allows
// the request's origin to read it.
func (r *request) writeCommon() (readable bool) {
	h, t := &r.ctx.Response.Header, r.server.terms
	h.Set(fiber.HeaderXContentTypeOptions, noSniff)
	h.Set(fiber.HeaderContentSecurityPolicy, securityPolicy)
	h.Set("Cross-Origin-Resource-Policy", t.cors.resourcePolicy)
	if t.hsts != "" && r.ctx.IsTLS() {
		h.Set(fiber.HeaderStrictTransportSecurity, t.hsts)
	}
	return t.cors.write(h, r.origin)
}

// writeVary writes the Vary of an answer that depends on nothing but perhaps the origin.
func (r *request) writeVary() {
	if r.server.terms.cors.varies() {
		r.ctx.Response.Header.Set(fiber.HeaderVary, "Origin")
	}
}

// redirect redirects to the right path, with the query. The answer has no body, and Django's
// content type.
func (r *request) redirect(path string) {
	if q := r.ctx.URI().QueryString(); len(q) > 0 {
		path += "?" + string(q)
	}
	r.writeCommon()
	r.writeVary()
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(fasthttp.StatusMovedPermanently)
	h.Set(fiber.HeaderLocation, path)
	h.SetContentType("text/html; charset=utf-8")
	h.SetContentLength(0) // also in the answer to HEAD
}

// preflight answers a CORS preflight. An origin that is not allowed gets the same answer without
// the permission. Every header can be sent, since nothing depends on credentials: the names before
// the wildcard are for browsers without support for it, and it never covers Authorization.
func (r *request) preflight() {
	readable := r.writeCommon()
	r.writeVary()
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.Set(fiber.HeaderAllow, allowed)
	if readable {
		h.Set(fiber.HeaderAccessControlAllowMethods, allowed)
		h.Set(fiber.HeaderAccessControlAllowHeaders,
			"Accept, Accept-Language, Authorization, Cache-Control, Content-Type, If-Modified-Since, If-None-Match, Traceparent, Tracestate, X-Request-Id, *")
		h.Set(fiber.HeaderAccessControlMaxAge, "7200") // two hours, Chromium's maximum
	}
}

// A description is the answer to OPTIONS, in Django REST Framework's form. text/html is listed
// since a browser's Accept is satisfied, with JSON.
type description struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Renders     []string `json:"renders"`
	Parses      []string `json:"parses"`
	Ordering    []string `json:"ordering,omitempty"` // the fields that banners can be ordered by
}

var descriptions = func() map[shape.Resource][]byte {
	all := map[shape.Resource][]byte{}
	for r, d := range map[shape.Resource]description{
		shape.Catalogue: {Name: "Catalogue Summary List", Description: "Artists, artworks and galleries."},
		shape.Rules:     {Name: "Rule Set List", Description: "Display rules."},
		shape.Banners:   {Name: "Single Banner List", Ordering: shape.BannerFields()},
	} {
		d.Renders = []string{"application/json", "text/html"}
		d.Parses = []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
		all[r], _ = json.Marshal(d) // texts
	}
	return all
}()

// describe answers OPTIONS.
func (r *request) describe(resource shape.Resource, indent int) {
	r.writeCommon()
	h := &r.ctx.Response.Header
	h.Set(fiber.HeaderVary, r.server.terms.vary)
	h.Set(fiber.HeaderAllow, allowed)
	h.SetContentType(contentJSON)
	r.ctx.Response.SetBodyRaw(shape.Indent(nil, descriptions[resource], indent))
}
