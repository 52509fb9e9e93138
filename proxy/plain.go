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
	t, h := r.server.terms, &r.ctx.Response.Header
	t.protection.set(h)
	t.cors.resourcePolicy.set(h)
	if r.ctx.IsTLS() {
		t.hsts.set(h)
	}
	listed := t.cors.origins[string(r.origin)]
	t.cors.all.set(h)
	listed.set(h)
	return len(t.cors.all.text)+len(listed.text) > 0
}

// writeVary writes the Vary of an answer that depends on nothing but perhaps the origin.
func (r *request) writeVary() {
	if len(r.server.terms.cors.origins) > 0 {
		r.ctx.Response.Header.Set(fiber.HeaderVary, "Origin")
	}
}

// redirect redirects to a path, with the query. The answer has no body, and Django's content type.
func redirect(path string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		r, to := requestOf(c), path
		if q := r.ctx.URI().QueryString(); len(q) > 0 {
			to += "?" + string(q)
		}
		r.writeCommon()
		r.writeVary()
		h := &r.ctx.Response.Header
		r.ctx.SetStatusCode(fasthttp.StatusMovedPermanently)
		h.Set(fiber.HeaderLocation, to)
		h.SetContentType("text/html; charset=utf-8")
		h.SetContentLength(0) // also in the answer to HEAD
		return nil
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
	for _, r := range shape.Resources() {
		d := description{
			Renders: []string{"application/json", "text/html"},
			Parses:  []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"},
		}
		if d.Name, d.Description = r.Describe(); r.Sortable() {
			d.Ordering = shape.BannerFields()
		}
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
