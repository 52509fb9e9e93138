package proxy

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/cache"
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
	return len(t.cors.all)+len(listed) > 0
}

// writeVary writes the Vary of an answer that depends on nothing but perhaps the origin.
func (r *request) writeVary() {
	if len(r.server.terms.cors.origins) > 0 {
		r.ctx.Response.Header.Set(fiber.HeaderVary, "Origin")
	}
}

// fail answers a request with an error. The cause goes to the log. A failed fetch was logged once
// where it was made, so here it is a debug line.
func (s *Server) fail(r *request, err error) {
	f := failureOf(err)
	level := slog.LevelDebug
	if f == &internalFailure {
		level = slog.LevelError
	}
	ctx := r.ctx
	clientOf(ctx).leave()
	if log := s.options.Logger; log.Enabled(s.base, level) { // making an id needs a large stack, which an idle connection would keep
		log.Log(s.base, level, "request failed", "method", string(ctx.Method()), "path", string(ctx.Path()),
			"status", f.status, "request_id", r.id(), "error", err)
	}

	r.writeCommon()
	h := &ctx.Response.Header
	ctx.SetStatusCode(f.status)
	h.SetContentType(contentJSON)
	if r.route != nil && f != &internalFailure {
		h.Set(fiber.HeaderVary, s.terms.vary)
		h.Set(fiber.HeaderAllow, allowed)
	} else {
		r.writeVary()
	}
	switch f.status {
	case http.StatusNotFound, http.StatusNotAcceptable, http.StatusMethodNotAllowed: // no request id, which a cache would give to everybody
	default:
		h.Set(fiber.HeaderCacheControl, "no-store")
		h.Set(fiber.HeaderXRequestID, r.id())
	}
	if f.status == http.StatusServiceUnavailable {
		h.Set(fiber.HeaderRetryAfter, strconv.FormatInt(retrySeconds(err), 10))
	}
	body, _ := jsontext.AppendQuote([]byte(`{"detail":`), strings.ReplaceAll(f.detail, "METHOD", string(ctx.Method()))) // other than UTF-8 is replaced
	ctx.SetBody(append(body, '}'))
	if r.bytes = len(ctx.Response.Body()); ctx.IsHead() {
		r.bytes = 0
	}
}

// writeForwarded writes Cache-Status for an answer without a document.
func (r *request) writeForwarded(st *cache.Status, err error) {
	said := *st
	said.Fwd, said.Detail = cmp.Or(said.Fwd, cache.FwdMiss), cmp.Or(said.Detail, errorDetail(err))
	r.ctx.Response.Header.SetBytesV(cacheStatus, renderStatus(&said, 0))
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
func (r *request) describe(indent int) {
	r.writeCommon()
	h := &r.ctx.Response.Header
	h.Set(fiber.HeaderVary, r.server.terms.vary)
	h.Set(fiber.HeaderAllow, allowed)
	h.SetContentType(contentJSON)
	r.ctx.Response.SetBodyRaw(shape.Indent(nil, descriptions[r.route.resource], indent))
}

// isPreflight reports whether an OPTIONS is a preflight (Fetch standard, section 4.8).
func (r *request) isPreflight() bool { return len(r.origin) > 0 && len(r.requestMethod) > 0 }

// answerPreflight answers a preflight. An origin that may not read gets the same answer without the
// permission.
func (r *request) answerPreflight() {
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.Set(fiber.HeaderAllow, allowed)
	if r.writeCommon() {
		permission.set(h)
	}
	r.writeVary()
}
