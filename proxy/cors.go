package proxy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// cors decides which origins' pages can read the answers (Fetch standard, section 3.3).
type cors struct {
	any bool
	// origins are the listed ones, each with the lines that allow it to read an answer.
	origins map[string][]byte
	// resourcePolicy says who can load answers without CORS, which code cannot read but a flaw of
	// the processor may leak (Fetch standard, section 3.7).
	resourcePolicy string
}

// exposed are the header fields that pages of other origins can read.
const exposed = "ETag, Age, Cache-Status, Retry-After, X-Request-Id"

// timingAllowOrigin lets the same pages read the times of a request (Resource Timing, section 4.5).
const timingAllowOrigin = "Timing-Allow-Origin"

// newCORS reads a list of origins; "*" alone allows all, and an empty list none.
func newCORS(origins []string) (cors, error) {
	c := cors{origins: make(map[string][]byte, len(origins)), resourcePolicy: "same-origin"}
	if slices.Contains(origins, "*") {
		if len(origins) > 1 {
			return c, fmt.Errorf("CORS origins: want either * or a list, got both in %q", origins)
		}
		c.any, c.resourcePolicy = true, "cross-origin"
		return c, nil
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o || strings.ToLower(o) != o {
			return c, fmt.Errorf("CORS origins: want an origin such as https://example.org, in lower case, got %q", o)
		}
		c.origins[o] = fmt.Appendf(nil, "Access-Control-Allow-Origin: %s\r\nTiming-Allow-Origin: %[1]s\r\nAccess-Control-Expose-Headers: %s\r\n", o, exposed)
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
		h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
		h.Set(timingAllowOrigin, "*")
	case !c.varies():
		return false
	default:
		if _, ok := c.origins[string(origin)]; !ok {
			return false
		}
		h.SetBytesV(fiber.HeaderAccessControlAllowOrigin, origin)
		h.SetBytesV(timingAllowOrigin, origin)
	}
	h.Set(fiber.HeaderAccessControlExposeHeaders, exposed)
	return true
}

// preflight answers a CORS preflight. An origin that is not allowed gets the same answer without
// the permission. Every header can be sent, since nothing depends on credentials: the names before
// the wildcard are for browsers without support for it, and it never covers Authorization.
func preflight(c *fiber.Ctx) error {
	r := requestOf(c)
	if !r.ctx.IsOptions() || len(r.origin) == 0 || len(r.requestMethod) == 0 { // Fetch standard, section 4.8
		return c.Next()
	}
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
	return nil
}
