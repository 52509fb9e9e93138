package proxy

import (
	"fmt"
	"strconv"

	"vitrine/proxy/negotiate"
)

// terms is the compiled form of the caching and CORS policy of [Options]: the header lines that
// never change.
type terms struct {
	policy policy
	cors   cors
	hsts   []byte // the line; nil for none
	// vary is the value of Vary at a route, without and with content codings.
	vary, varyEncoded []byte
	// heads end the header of an answer with a document.
	heads [len(routes)][heads][]byte
}

// The kinds of heads: one for each content coding, one for a document that has none, and two for a
// 304.
const (
	headSmall            = int(negotiate.Encodings) // after those of the codings, whose index is theirs
	headNotModified      = headSmall + 1
	headNotModifiedSmall = headSmall + 2
	heads                = headSmall + 3
)

func newTerms(o *Options) (*terms, error) {
	t := &terms{policy: newPolicy(o), vary: []byte("Accept"), varyEncoded: []byte("Accept, Accept-Encoding")}
	var err error
	if t.cors, err = newCORS(o.CORSOrigins); err != nil {
		return nil, err
	}
	if o.HSTS > 0 {
		t.hsts = append(strconv.AppendInt([]byte("Strict-Transport-Security: max-age="), wholeSeconds(o.HSTS), 10), "\r\n"...)
	}
	if t.cors.varies() {
		t.vary = append(t.vary, ", Origin"...)
		t.varyEncoded = append(t.varyEncoded, ", Origin"...)
	}
	for i := range routes {
		for kind := range t.heads[i] {
			t.heads[i][kind] = t.newHead(i, kind)
		}
	}
	return t, nil
}

// newHead renders what follows the entity-tag in the header of an answer with the document of a
// route. A 304 has only the fields that a cache or a page needs; those that protect a body were
// sent with the body.
func (t *terms) newHead(i, kind int) []byte {
	b := []byte("\r\n")
	line := func(name, value []byte) { b = fmt.Appendf(b, "%s: %s\r\n", name, value) }
	if kind == headSmall || kind == headNotModifiedSmall {
		line(keyVary, t.vary)
	} else {
		line(keyVary, t.varyEncoded)
	}
	// The groups by which a cache can be purged (RFC 9875, section 2): the resource, in all its
	// forms, and all of vitrine.
	line(keyCacheGroups, fmt.Appendf(nil, `"%s", "vitrine"`, routes[i].resource))
	if kind < headNotModified {
		line(keyAllow, valueAllow)
		line(keyContentType, valueJSON)
		if kind < headSmall {
			if e := negotiate.Encoding(kind).String(); e != "" { //nolint:gosec // it is one
				line(keyContentEncoding, []byte(e))
			}
		}
		line(keyNoSniff, valueNoSniff)
		line(keySecurityPolicy, valueSecurityPolicy)
	}
	line(keyResourcePolicy, t.cors.resourcePolicy)
	if t.cors.any {
		line(keyAllowOrigin, valueAny)
		line(keyExposeHeaders, valueCORSExposed)
	}
	return append(b, "\r\n"...)
}

// writeCommon writes the fields of every answer without a document, and reports whether CORS allows
// the request's origin to read it.
func (r *request) writeCommon() (allowed bool) {
	h := &r.ctx.Response.Header
	h.SetCanonical(keyNoSniff, valueNoSniff)
	h.SetCanonical(keySecurityPolicy, valueSecurityPolicy)
	h.SetCanonical(keyResourcePolicy, r.server.terms.cors.resourcePolicy)
	if r.server.terms.hsts != nil && r.ctx.IsTLS() {
		h.SetCanonical(keyHSTS, r.server.terms.hsts[len(keyHSTS)+len(": "):len(r.server.terms.hsts)-len("\r\n")])
	}
	return r.server.terms.cors.write(&r.ctx.Response.Header, r.origin)
}
