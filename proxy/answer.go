package proxy

import (
	"bytes"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

// http1 is the beginning of the only major version supported.
var http1 = []byte("HTTP/1.")

// answer answers a request, or returns an error. The order of the checks is that of Django REST
// Framework.
func (s *Server) answer(r *request) error {
	ctx := r.ctx
	h := &ctx.Request.Header
	if r.closes || r.malformed {
		ctx.SetConnectionClose()
	}
	switch {
	case !bytes.HasPrefix(h.Protocol(), http1):
		return errVersion
	case r.malformed:
		return errMalformed
	case len(h.RequestURI()) > s.maxTarget:
		return errTargetTooLong
	case len(h.RawHeaders()) > s.maxHeader:
		return errHeaderTooLong
	}
	i, m := findRoute(ctx.URI().PathOriginal())
	switch m {
	case noMatch:
		return errNoRoute
	case slashless, slashed:
		r.redirect(routes[i].path)
		return nil
	case exact:
		r.target = metrics.Target(i) //nolint:gosec // routes are in the order of shape.Resources
	}
	if isPreflight(r) {
		r.preflight()
		return nil
	}

	q := negotiate.ParseQuery(ctx.URI().QueryString())
	f := negotiate.ParseFormat(q.Format)
	if f == negotiate.FormatUnknown {
		return errFormat
	}
	indent, ok := negotiate.Indent(r.accept, f)
	if !ok {
		return errNotAcceptable
	}
	switch {
	case ctx.IsGet(), ctx.IsHead():
		key := represent.Key{Indent: uint8(indent)} //nolint:gosec // at most negotiate.MaxIndent
		if routes[i].resource == shape.Banners && len(q.Ordering) > 0 {
			key.Ordering = negotiate.ParseOrdering(q.Ordering)
		}
		return s.read(r, i, key)
	case ctx.IsOptions():
		r.describe(s.resources[i].description[indent])
		return nil
	}
	return methodError(ctx.Method())
}

// read answers with the document, or with 304 or 412 by the request's conditions.
func (s *Server) read(r *request, i int, key represent.Key) error {
	a, err := s.resources[i].documents.Get(r)
	r.observeDocument(&a.Status, err)
	if err != nil {
		r.writeForwarded(&a.Status, err)
		return fmt.Errorf("%s: %w", routes[i].resource, err)
	}
	now := time.Now()
	m := s.resources[i].at(&r.server.terms.policy, a.Document, &a.Status, now)
	rep, lease := a.Value.Get(key, negotiate.ChooseEncoding(r.acceptEncoding))
	verdict := r.conditions.Evaluate(rep.Tag, m.lastModified, m.modified, now)
	if verdict == negotiate.Failed {
		lease.Release()
		return errPrecondition
	}
	r.moment, r.encoding = m, rep.Encoding
	head := headSmall
	if rep.Varies {
		head = int(rep.Encoding)
	}
	out := newOutgoing()
	out.add(r.server.terms.cors.origins[string(r.origin)])
	if r.ctx.IsTLS() {
		out.add(r.server.terms.hsts)
	}
	out.add(m.lines)
	out.add(rep.Tag)
	switch {
	case verdict == negotiate.NotModified && rep.Varies:
		head = headNotModified
	case verdict == negotiate.NotModified:
		head = headNotModifiedSmall
	}
	out.add(r.server.terms.heads[i][head])
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
	connOf(r.ctx).prepare(out)
	return nil
}

// writeForwarded writes Cache-Status for an answer without a document.
func (r *request) writeForwarded(st *cache.Status, err error) {
	said := *st
	if said.Fwd == "" {
		said.Fwd = cache.FwdMiss
	}
	if said.Detail == "" {
		said.Detail = errorDetail(err)
	}
	r.ctx.Response.Header.SetCanonical(keyCacheStatus, appendCacheStatus(nil, &said, 0))
}

// describe answers OPTIONS.
func (r *request) describe(body []byte) {
	h := &r.ctx.Response.Header
	r.writeCommon()
	h.SetCanonical(keyVary, r.server.terms.vary)
	h.SetCanonical(keyAllow, valueAllow)
	h.SetContentTypeBytes(valueJSON)
	r.ctx.Response.SetBodyRaw(body)
}

// redirect redirects to the right path, with the query. The answer has no body, and Django's
// content type.
func (r *request) redirect(path string) {
	location := []byte(path)
	if q := r.ctx.URI().QueryString(); len(q) > 0 {
		location = append(append(location, '?'), q...)
	}
	r.writeCommon()
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(fasthttp.StatusMovedPermanently)
	h.SetCanonical(keyLocation, location)
	h.SetContentTypeBytes(valueHTML)
	h.SetContentLength(0) // also in the answer to HEAD
	if r.server.terms.cors.varies() {
		h.SetCanonical(keyVary, valueOrigin)
	}
}
