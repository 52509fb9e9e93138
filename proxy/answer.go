package proxy

import (
	"bytes"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/upstream/shape"
)

// apiIndent is how ?format=api indents, which is how the browsable rendering shows a document.
const apiIndent = 4

// answer answers one request, or says why not. The order of the checks is that of Django REST Framework.
func (s *Server) answer(ctx *fasthttp.RequestCtx, o *observed) error {
	r := s.newRequest(ctx)
	defer r.release()
	o.span = s.startSpan(r)
	allowed := s.writeCommon(ctx, r)
	if s.throttle != nil {
		if err := s.throttle.admit(s.proxies.client(connOf(ctx), &ctx.Request.Header), time.Now()); err != nil {
			return err
		}
	}
	if !bytes.HasPrefix(ctx.Request.Header.Protocol(), http1) {
		return errVersion
	}
	if ambiguous(&ctx.Request.Header) {
		ctx.SetConnectionClose()
	}
	if len(ctx.Request.Header.RequestURI()) > s.maxTarget {
		return errTargetTooLong
	}
	if len(ctx.Request.Header.RawHeaders()) > s.maxHeader {
		return errHeaderTooLong
	}
	i, m := findRoute(ctx.URI().PathOriginal())
	switch m {
	case noMatch:
		return errNoRoute
	case slashless, slashed:
		s.redirect(ctx, r, routes[i].path)
		return nil
	case exact:
		o.target = metrics.Target(i) //nolint:gosec // routes are in the order of shape.Resources
	}
	if isPreflight(ctx, r) {
		s.preflight(ctx, r, allowed)
		return nil
	}

	q := parseQuery(ctx.URI().QueryString())
	f := parseFormat(q.format)
	if f == formatUnknown {
		return errFormat
	}
	indent, ok := r.indent(f)
	if !ok {
		return errNotAcceptable
	}

	switch {
	case ctx.IsGet(), ctx.IsHead():
		key := formKey{indent: uint8(indent)} //nolint:gosec // at most maxIndent
		if routes[i].resource == shape.Banners && len(q.ordering) > 0 {
			key.ordering = parseOrdering(q.ordering)
		}
		return s.read(ctx, r, i, key, o)
	case ctx.IsOptions():
		s.describe(ctx, r, i, indent)
		return nil
	}
	return methodError(ctx.Method())
}

// http1 begins the name of the only major version that is spoken here.
var http1 = []byte("HTTP/1.")

// ambiguous reports whether a request says twice how long its body is, by chunks and by a length. The chunks count, and
// what follows on the connection is not trusted to be a request (RFC 9112, section 6.1).
func ambiguous(h *fasthttp.RequestHeader) bool {
	const chunked = -1
	return h.ContentLength() == chunked && bytes.Contains(bytes.ToLower(h.RawHeaders()), []byte("content-length"))
}

// indent negotiates: it says how deep the answer is to be indented, 0 for not at all, and whether one is acceptable.
func (r *request) indent(f format) (indent int, ok bool) {
	indent = noIndent
	// An Accept that is there and empty accepts nothing.
	if r.accept != nil {
		if indent, ok = parseAccept(r.accept); !ok {
			return 0, false
		}
	}
	switch {
	case indent != noIndent:
		return indent, true
	case f == formatAPI:
		return apiIndent, true
	}
	return 0, true
}

// read answers with the document, or with 304 or 412 where a condition says so.
func (s *Server) read(ctx *fasthttp.RequestCtx, r *request, i int, key formKey, o *observed) error {
	a, err := s.sources[i].Get(r)
	o.document(&a.Status, err)
	if err != nil {
		s.writeForwarded(ctx, &a.Status, err)
		return fmt.Errorf("%s: %w", routes[i].resource, err)
	}
	now := time.Now()
	m := a.Value.at(&r.terms.policy, a.Document, &a.Status, now)
	form := a.Value.form(key)
	enc := identityEncoding
	if form.varies() {
		enc = chooseEncoding(r.acceptEncoding)
	}
	rep := form.represent(enc)
	v := r.evaluate(rep.tag, m.lastModified, m.modified, now)
	if v == failed {
		return errPrecondition
	}
	h := &ctx.Response.Header
	if form.varies() {
		h.SetCanonical(keyVary, r.terms.varyAcceptEncoding)
	} else {
		h.SetCanonical(keyVary, r.terms.varyAccept)
	}
	h.SetCanonical(keyETag, rep.tag)
	h.SetCanonical(keyLastModified, m.lastModified)
	h.SetCanonical(keyAge, m.age)
	h.SetCanonical(keyCacheControl, m.cacheControl)
	h.SetCanonical(keyCDNCacheControl, m.cdnCacheControl)
	h.SetCanonical(keyCacheGroups, cacheGroups[i])
	h.SetCanonical(keyCacheStatus, m.cacheStatus)
	if v == notModified {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	h.SetCanonical(keyAllow, valueAllow)
	h.SetContentTypeBytes(valueJSON)
	if rep.enc != identityEncoding {
		h.SetCanonical(keyContentEncoding, contentEncodings[rep.enc])
	}
	ctx.Response.SetBodyRaw(rep.body)
	return nil
}

// writeForwarded says in Cache-Status why there is no answer.
func (s *Server) writeForwarded(ctx *fasthttp.RequestCtx, st *cache.Status, err error) {
	told := *st
	if told.Fwd == "" {
		told.Fwd = cache.FwdMiss
	}
	if told.Detail == "" {
		told.Detail = errorDetail(err)
	}
	ctx.Response.Header.SetCanonical(keyCacheStatus, appendCacheStatus(nil, &told, 0))
}

// describe answers OPTIONS.
func (s *Server) describe(ctx *fasthttp.RequestCtx, r *request, i, indent int) {
	h := &ctx.Response.Header
	h.SetCanonical(keyVary, r.terms.varyAccept)
	h.SetCanonical(keyAllow, valueAllow)
	h.SetContentTypeBytes(valueJSON)
	ctx.Response.SetBodyRaw(s.descriptions[i][indent])
}

// redirect sends the client to the right path, query kept. The answer has no body and the type that Django gives it.
func (s *Server) redirect(ctx *fasthttp.RequestCtx, r *request, path string) {
	location := []byte(path)
	if q := ctx.URI().QueryString(); len(q) > 0 {
		location = append(append(location, '?'), q...)
	}
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusMovedPermanently)
	h.SetCanonical(keyLocation, location)
	h.SetContentTypeBytes(valueHTML)
	h.SetContentLength(0) // said to HEAD as well
	if r.terms.cors.varies() {
		h.SetCanonical(keyVary, valueOrigin)
	}
}

// writeCommon writes what every answer has, and reports whether CORS allows the request's origin to read it.
func (s *Server) writeCommon(ctx *fasthttp.RequestCtx, r *request) (allowed bool) {
	h := &ctx.Response.Header
	if saneRequestID(r.requestID) {
		h.SetCanonical(keyRequestID, r.requestID)
	} else {
		var made [requestIDLength]byte
		s.ids.put(&made)
		h.SetCanonical(keyRequestID, made[:])
	}
	h.SetCanonical(keyNoSniff, valueNoSniff)
	h.SetCanonical(keySecurityPolicy, valueSecurityPolicy)
	h.SetCanonical(keyResourcePolicy, r.terms.cors.resourcePolicy)
	if r.terms.hsts != nil && ctx.IsTLS() {
		h.SetCanonical(keyHSTS, r.terms.hsts)
	}
	return r.terms.cors.write(ctx, r.origin)
}
