package proxy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// Values that never change.
const (
	allowed     = "GET, HEAD, OPTIONS"
	contentJSON = "application/json"
	// If a browser ever shows an answer as a page, that page can do nothing and cannot be framed.
	securityPolicy = "default-src 'none'; frame-ancestors 'none'"
)

// headerFields are fields that never change: names and values in turn.
type headerFields [][]byte

func newFields(texts ...string) (f headerFields) {
	for _, text := range texts {
		f = append(f, []byte(text))
	}
	return f
}

func (f headerFields) set(h *fasthttp.ResponseHeader) {
	for i := 0; i < len(f); i += 2 {
		h.SetCanonical(f[i], f[i+1])
	}
}

// terms is the compiled form of the caching and CORS policy of [Options]: the header fields that
// never change.
type terms struct {
	browsers, cdns policy
	cors           cors
	protection     headerFields // of a body
	hsts           headerFields // over TLS; none unless it is sent
	// vary is the value of Vary at a route, without and with content codings.
	vary, varyEncoded string
	tags              []string // the names of further fields with the groups
}

// tagsBetween separates the tags in the fields of Cloudflare and Fastly.
var tagsBetween = map[string]string{"Cache-Tag": ",", "Surrogate-Key": " "}

// noCodings is the index, after those of the content codings, of a document that has none.
const noCodings = negotiate.Encodings

func newTerms(o *Options) (*terms, error) {
	t := &terms{vary: "Accept", varyEncoded: "Accept, Accept-Encoding", tags: o.TagHeaders}
	t.protection = newFields("X-Content-Type-Options", "nosniff", "Content-Security-Policy", securityPolicy)
	t.browsers, t.cdns = policies(o)
	var err error
	if t.cors, err = newCORS(o.CORSOrigins); err != nil {
		return nil, err
	}
	if o.HSTS > 0 {
		t.hsts = newFields("Strict-Transport-Security", fmt.Sprintf("max-age=%d", wholeSeconds(o.HSTS)))
	}
	if len(t.cors.origins) > 0 {
		t.vary += ", Origin"
		t.varyEncoded += ", Origin"
	}
	return t, nil
}

// setDocument sets the fields of an answer with a document that never change. A 304 has only those
// that a cache or a page needs; those that protect a body were sent with the body.
func (t *terms) setDocument(h *fasthttp.ResponseHeader, r shape.Resource, verdict negotiate.Verdict, coding negotiate.Encoding) {
	h.SetNoDefaultContentType(true)
	h.Set(fiber.HeaderVary, t.varyEncoded)
	if coding == noCodings {
		h.Set(fiber.HeaderVary, t.vary)
	}
	// The groups by which a cache can be purged (RFC 9875, section 2): the resource, in all its
	// forms, and all of vitrine.
	h.Set("Cache-Groups", fmt.Sprintf(`"%s", "vitrine"`, r))
	for _, name := range t.tags {
		h.Set(name, string(r)+tagsBetween[name]+"vitrine")
	}
	if verdict == negotiate.Proceed {
		h.Set(fiber.HeaderAllow, allowed)
		h.SetContentType(contentJSON)
		if coding < negotiate.Identity {
			h.SetContentEncoding(coding.String())
		}
		t.protection.set(h)
	} else {
		h.SetStatusCode(fasthttp.StatusNotModified)
	}
	t.cors.resourcePolicy.set(h)
	t.cors.all.set(h)
}

// cors decides which origins' pages can read the answers (Fetch standard, section 3.3).
type cors struct {
	// all are the fields that allow all origins to read an answer, with or without an Origin, since a
	// cache serves it to either; empty unless all can.
	all headerFields
	// origins are the listed ones, each with its fields.
	origins map[string]headerFields
	// resourcePolicy is the field that says who can load answers without CORS, which code cannot read
	// but a flaw of the processor may leak (Fetch standard, section 3.7).
	resourcePolicy headerFields
}

// exposed are the header fields that pages of other origins can read.
const exposed = "ETag, Age, Cache-Status, Retry-After, X-Request-Id"

// readable are the fields that allow the pages of an origin to read an answer, and the times of a
// request (Resource Timing, section 4.5).
func readable(origin string) headerFields {
	return newFields("Access-Control-Allow-Origin", origin, "Timing-Allow-Origin", origin, "Access-Control-Expose-Headers", exposed)
}

// newCORS reads a list of origins; "*" alone allows all, and an empty list none.
func newCORS(origins []string) (cors, error) {
	c := cors{origins: map[string]headerFields{}, resourcePolicy: newFields("Cross-Origin-Resource-Policy", "same-origin")}
	if slices.Contains(origins, "*") {
		if len(origins) > 1 {
			return c, fmt.Errorf("CORS origins: want either * or a list, got both in %q", origins)
		}
		c.all, c.resourcePolicy = readable("*"), newFields("Cross-Origin-Resource-Policy", "cross-origin")
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

// permission are the fields that allow the pages of an origin to send requests. Every header can be
// sent, since nothing depends on credentials: the names before the wildcard are for browsers
// without support for it, and it never covers Authorization. Two hours are Chromium's maximum.
var permission = newFields("Access-Control-Allow-Methods", allowed,
	"Access-Control-Allow-Headers", "Accept, Accept-Language, Authorization, Cache-Control, Content-Type, If-Modified-Since, If-None-Match, Traceparent, Tracestate, X-Request-Id, *",
	"Access-Control-Max-Age", "7200")
