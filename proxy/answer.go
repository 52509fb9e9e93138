package proxy

import (
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

// document answers at the route of a resource.
func (s *Server) document(of shape.Resource) fiber.Handler {
	at := s.routes[of]
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
	m := r.route.at(s.terms, a.Document, &a.Status, now)
	rep := a.Value.Get(key, negotiate.ChooseEncoding(r.acceptEncoding))
	verdict := r.conditions.Evaluate(rep.Tag, m.lastModified, m.modified, now)
	if verdict == negotiate.Failed {
		return errPrecondition
	}
	r.encoding = rep.Encoding
	coding := negotiate.Encoding(noCodings)
	if rep.Varies {
		coding = rep.Encoding
	}
	resp := &r.ctx.Response
	m.header(s.terms, r.route.resource, verdict, coding).CopyTo(&resp.Header)
	resp.Header.SetCanonical(etag, rep.Tag)
	s.terms.cors.origins[string(r.origin)].set(&resp.Header)
	if r.ctx.IsTLS() {
		s.terms.hsts.set(&resp.Header)
	}
	if verdict == negotiate.NotModified {
		return nil
	}
	if stream := rep.Stream(); stream != nil {
		resp.SetBodyStream(stream, rep.Size)
	} else {
		resp.SetBodyRaw(rep.Body)
	}
	if !r.ctx.IsHead() {
		r.bytes = rep.Size
	}
	return nil
}

var etag = []byte(fiber.HeaderETag)
