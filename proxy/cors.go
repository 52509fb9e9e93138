package proxy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// cors decides which origins' pages can read the answers (Fetch standard, section 3.3).
type cors struct {
	any bool
	// origins are the listed ones, each with the lines that allow it to read an answer.
	origins map[string][]byte
	// resourcePolicy says who can load answers without CORS, which code cannot read but a flaw of
	// the processor may leak (Fetch standard, section 3.7).
	resourcePolicy []byte
}

// The answer to a preflight. Every header can be sent, since nothing depends on credentials. The
// names before the wildcard are for browsers without support for it, and it never covers
// Authorization.
var (
	valueCORSMethods = []byte("GET, HEAD, OPTIONS")
	valueCORSHeaders = []byte("Accept, Accept-Language, Authorization, Cache-Control, Content-Type, If-Modified-Since, If-None-Match, Traceparent, Tracestate, X-Request-Id, *")
	valueCORSMaxAge  = []byte("7200") // two hours, Chromium's maximum
	valueCORSExposed = []byte("ETag, Age, Cache-Status")
)

// newCORS reads a list of origins; "*" alone allows all, and an empty list none.
func newCORS(origins []string) (cors, error) {
	c := cors{origins: make(map[string][]byte, len(origins)), resourcePolicy: []byte("same-origin")}
	if slices.Contains(origins, "*") {
		if len(origins) > 1 {
			return c, fmt.Errorf("CORS origins: want either * or a list, got both in %q", origins)
		}
		c.any, c.resourcePolicy = true, []byte("cross-origin")
		return c, nil
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o || strings.ToLower(o) != o {
			return c, fmt.Errorf("CORS origins: want an origin such as https://example.org, in lower case, got %q", o)
		}
		c.origins[o] = fmt.Appendf(nil, "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: %s\r\n", o, valueCORSExposed)
	}
	return c, nil
}

// varies reports whether answers depend on the origin.
func (c *cors) varies() bool { return len(c.origins) > 0 }

// write allows the request's origin to read the answer, and reports whether it is allowed. If all
// are, every answer says so, with or without an Origin, since a cache serves it to either.
func (c *cors) write(h *fasthttp.ResponseHeader, origin []byte) (allowed bool) {
	switch {
	case c.any:
		h.SetCanonical(keyAllowOrigin, valueAny)
	case !c.varies():
		return false
	default:
		if _, ok := c.origins[string(origin)]; !ok {
			return false
		}
		h.SetCanonical(keyAllowOrigin, origin)
	}
	h.SetCanonical(keyExposeHeaders, valueCORSExposed)
	return true
}

// isPreflight distinguishes a preflight from any other OPTIONS (Fetch standard, section 4.8).
func isPreflight(r *request) bool {
	return r.ctx.IsOptions() && len(r.origin) > 0 && len(r.requestMethod) > 0
}

// preflight answers a preflight. An origin that is not allowed gets the same answer without the
// permission.
func (r *request) preflight() {
	allowed := r.writeCommon()
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.SetCanonical(keyAllow, valueAllow)
	if r.server.terms.cors.varies() {
		h.SetCanonical(keyVary, valueOrigin)
	}
	if allowed {
		h.SetCanonical(keyAllowMethods, valueCORSMethods)
		h.SetCanonical(keyAllowHeaders, valueCORSHeaders)
		h.SetCanonical(keyMaxAge, valueCORSMaxAge)
	}
}
