package proxy

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

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

// lines are header lines that never change: as they are written before a document, and as fasthttp
// takes them for any other answer.
type lines struct {
	text   []byte
	fields [][2][]byte // name and value
}

func newLines(format string, args ...any) lines {
	l := lines{text: fmt.Appendf(nil, format, args...)}
	for line := range bytes.Lines(l.text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		l.fields = append(l.fields, [2][]byte{name, value})
	}
	return l
}

func (l *lines) set(h *fasthttp.ResponseHeader) {
	for _, f := range l.fields {
		h.SetBytesKV(f[0], f[1])
	}
}

// terms is the compiled form of the caching and CORS policy of [Options]: the header lines that
// never change.
type terms struct {
	browsers, cdns policy
	cors           cors
	protection     lines // of a body
	hsts           lines // over TLS; none unless it is sent
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
	t.protection = newLines("X-Content-Type-Options: nosniff\r\nContent-Security-Policy: %s\r\n", securityPolicy)
	t.browsers, t.cdns = policies(o)
	var err error
	if t.cors, err = newCORS(o.CORSOrigins); err != nil {
		return nil, err
	}
	if o.HSTS > 0 {
		t.hsts = newLines("Strict-Transport-Security: max-age=%d\r\n", wholeSeconds(o.HSTS))
	}
	if len(t.cors.origins) > 0 {
		t.vary += ", Origin"
		t.varyEncoded += ", Origin"
	}
	return t, nil
}

// newHead renders what follows the entity-tag in the header of an answer with a document. A 304 has
// only the fields that a cache or a page needs; those that protect a body were sent with the body.
func (t *terms) newHead(r shape.Resource, verdict negotiate.Verdict, coding negotiate.Encoding) []byte {
	b := []byte("\r\n")
	line := func(name, value string) { b = fmt.Appendf(b, "%s: %s\r\n", name, value) }
	if coding == noCodings {
		line("Vary", t.vary)
	} else {
		line("Vary", t.varyEncoded)
	}
	// The groups by which a cache can be purged (RFC 9875, section 2): the resource, in all its
	// forms, and all of vitrine.
	line("Cache-Groups", fmt.Sprintf(`"%s", "vitrine"`, r))
	for _, name := range t.tags {
		line(name, string(r)+tagsBetween[name]+"vitrine")
	}
	if verdict == negotiate.Proceed {
		line("Allow", allowed)
		line("Content-Type", contentJSON)
		if coding < negotiate.Identity {
			line("Content-Encoding", coding.String())
		}
		b = append(b, t.protection.text...)
	}
	return slices.Concat(b, t.cors.resourcePolicy.text, t.cors.all.text, []byte("\r\n"))
}

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
