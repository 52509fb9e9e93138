package proxy

import (
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
)

// document answers at a route.
func (s *Server) document(at *route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		r := requestOf(c)
		r.route = at
		if r.ctx.IsOptions() && r.isPreflight() {
			r.answerPreflight()
			return nil
		}
		key, err := r.form()
		switch {
		case err != nil:
			return err
		case r.ctx.IsGet(), r.ctx.IsHead():
			return s.read(r, key)
		case r.ctx.IsOptions():
			r.describe(int(key.Indent))
			return nil
		}
		return errMethod
	}
}

// form is the form that the request asks for. Its checks come before that of the method, in the
// order of Django REST Framework.
func (r *request) form() (key represent.Key, err error) {
	q := negotiate.ParseQuery(r.ctx.URI().QueryString())
	f := negotiate.ParseFormat(q.Format)
	if f == negotiate.FormatUnknown {
		return key, errFormat
	}
	indent, ok := negotiate.Indent(r.accept, f)
	if !ok {
		return key, errNotAcceptable
	}
	key.Indent = uint8(indent) //nolint:gosec // at most negotiate.MaxIndent
	if r.route.sortable && len(q.Ordering) > 0 {
		key.Ordering = negotiate.ParseOrdering(q.Ordering)
	}
	return key, nil
}

// read answers with the document, or with 304 or 412 by the request's conditions.
func (s *Server) read(r *request, key represent.Key) error {
	clientOf(r.ctx).leave()
	a, err := r.route.documents.Get(r)
	r.observeDocument(&a.Status, err)
	if err != nil {
		r.writeForwarded(&a.Status, err)
		return fmt.Errorf("%s: %w", r.route.resource, err)
	}
	return s.answer(r, key, &a)
}

// observeDocument records how the document was obtained.
func (r *request) observeDocument(s *cache.Status, err error) {
	switch {
	case err != nil, s.Fwd != "":
		r.cache = metrics.Miss
	case s.Stale:
		r.cache = metrics.Stale
	default:
		r.cache = metrics.Hit
	}
	r.collapsed = s.Collapsed
}

// answer is the part of read that follows the look at memory, so that an idle connection need not
// keep the stack that both would take together.
func (s *Server) answer(r *request, key represent.Key, a *cache.Answer[*represent.Document]) error {
	now := r.ctx.Time()                                        // a hit took no time
	if now.IsZero() || a.Status.Detail != cache.DetailMemory { // anything else may have waited
		now = time.Now()
	}
	m := r.route.moments.at(s.terms, a.Document, &a.Status, now)
	rep, lease := a.Value.Get(key, negotiate.ChooseEncoding(r.acceptEncoding))
	verdict := r.conditions.Evaluate(rep.Tag, m.lastModified, m.modified, now)
	if verdict == negotiate.Failed {
		lease.Release()
		return errPrecondition
	}
	r.moment, r.encoding = m, rep.Encoding
	coding := negotiate.Encoding(noCodings)
	if rep.Varies {
		coding = rep.Encoding
	}
	out := newOutgoing()
	out.add(s.terms.cors.origins[string(r.origin)].text)
	if r.ctx.IsTLS() {
		out.add(s.terms.hsts.text)
	}
	out.add(m.lines)
	out.add(rep.Tag)
	out.add(r.route.heads[verdict][coding])
	resp := &r.ctx.Response
	if verdict == negotiate.NotModified {
		lease.Release()
		resp.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		resp.Header.SetContentLength(rep.Size)
		if r.ctx.IsHead() {
			lease.Release()
		} else {
			r.bytes = rep.Size
			out.content(rep, lease)
		}
	}
	resp.SkipBody = true // the connection has it
	out.status = resp.StatusCode()
	clientOf(r.ctx).prepare(out)
	return nil
}
