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
	// all are the lines that allow all origins to read an answer, with or without an Origin, since a
	// cache serves it to either; empty unless all can.
	all lines
	// origins are the listed ones, each with its lines.
	origins map[string]lines
	// resourcePolicy is the line that says who can load answers without CORS, which code cannot read
	// but a flaw of the processor may leak (Fetch standard, section 3.7).
	resourcePolicy lines
}

// exposed are the header fields that pages of other origins can read.
const exposed = "ETag, Age, Cache-Status, Retry-After, X-Request-Id"

// readable are the lines that allow the pages of an origin to read an answer, and the times of a
// request (Resource Timing, section 4.5).
func readable(origin string) lines {
	return newLines("Access-Control-Allow-Origin: %s\r\nTiming-Allow-Origin: %[1]s\r\nAccess-Control-Expose-Headers: %s\r\n", origin, exposed)
}

// newCORS reads a list of origins; "*" alone allows all, and an empty list none.
func newCORS(origins []string) (cors, error) {
	c := cors{origins: map[string]lines{}, resourcePolicy: newLines("Cross-Origin-Resource-Policy: same-origin\r\n")}
	if slices.Contains(origins, "*") {
		if len(origins) > 1 {
			return c, fmt.Errorf("CORS origins: want either * or a list, got both in %q", origins)
		}
		c.all, c.resourcePolicy = readable("*"), newLines("Cross-Origin-Resource-Policy: cross-origin\r\n")
		return c, nil
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o || strings.ToLower(o) != o {
			return c, fmt.Errorf("CORS origins: want an origin such as https://example.org, in lower case, got %q", o)
		}
		c.origins[o] = readable(o)
	}
	return c, nil
}

// permission are the lines that allow the pages of an origin to send requests. Every header can be
// sent, since nothing depends on credentials: the names before the wildcard are for browsers
// without support for it, and it never covers Authorization. Two hours are Chromium's maximum.
var permission = newLines("Access-Control-Allow-Methods: " + allowed + "\r\n" +
	"Access-Control-Allow-Headers: Accept, Accept-Language, Authorization, Cache-Control, Content-Type, If-Modified-Since, If-None-Match, Traceparent, Tracestate, X-Request-Id, *\r\n" +
	"Access-Control-Max-Age: 7200\r\n")

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
