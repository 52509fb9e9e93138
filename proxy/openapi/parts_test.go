package openapi

import "vitrine/upstream/shape"

// foundHeaders are those of a 200, keptHeaders those of a 304.
var (
	foundHeaders = []string{
		"Allow", "Vary", "ETag", "Last-Modified", "Age", "Cache-Control", "CDN-Cache-Control", "Cache-Groups",
		"Cache-Status",
	}
	keptHeaders = []string{
		"Vary", "ETag", "Last-Modified", "Age", "Cache-Control", "CDN-Cache-Control", "Cache-Groups", "Cache-Status",
	}
)

// parameters are shared by the routes.
func parameters() object {
	text := object{{"type", "string"}}
	inHeader := func(name, doc, example string) member {
		return member{name, object{{"name", name}, {"in", "header"}, {"description", doc}, {"schema", text}, {"example", example}}}
	}
	const etag, date = `"fw320fO14tZox7Jn"`, "Tue, 03 Jun 2025 08:15:00 GMT"
	return object{
		{"format", object{
			{"name", "format"}, {"in", "query"}, {"allowEmptyValue", true},
			{"description", "api indents the JSON, as Accept: application/json; indent=N does for N from 0 to 8; json and the empty value change nothing."},
			{"schema", object{{"type", "string"}, {"enum", []string{"", "api", "json"}}}},
			{"example", "api"},
		}},
		{"ordering", object{
			{"name", "ordering"}, {"in", "query"}, {"allowEmptyValue", true},
			{"description", "Fields of a banner, separated by commas, each with a leading - for descending order. What is no " +
				"field is ignored. Text sorts by code point, false before true; equal banners keep the CMS's order."},
			{"schema", text},
			{"examples", object{
				{"one", object{{"value", "-redirect_link_fr"}}},
				{"several", object{{"value", "language_en,-" + shape.BannerFields()[0]}}},
			}},
		}},
		inHeader("If-None-Match", "ETags of the client's copies: 304 if one of them is current.", etag),
		inHeader("If-Modified-Since", "The date of the client's copy: 304 if it is current. Ignored beside If-None-Match.", date),
		inHeader("If-Match", "412 unless one of these ETags is current.", etag),
		inHeader("If-Unmodified-Since", "412 if modified since. Ignored beside If-Match.", date),
	}
}

// headers are shared by the answers.
func headers() object {
	text := func(doc, pattern, example string) object {
		return object{
			{"description", doc}, {"required", true},
			{"schema", object{{"type", "string"}, {"pattern", pattern}}},
			{"example", example},
		}
	}
	const date = `^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$`
	return object{
		{"Allow", text("The methods of the route.", `^GET, HEAD, OPTIONS$`, "GET, HEAD, OPTIONS")},
		{"Vary", text("The request headers that select the response: Accept, Accept-Encoding if there are compressed variants, Origin if CORS origins are listed.",
			`^Accept(, Accept-Encoding)?(, Origin)?$`, "Accept, Accept-Encoding")},
		{"ETag", text("Strong; a hash of the bytes of this representation.", `^"[^"]+"$`, `"fw320fO14tZox7Jn"`)},
		{"Last-Modified", text("When the content last changed.", date, "Tue, 03 Jun 2025 08:15:00 GMT")},
		{"Age", object{
			{"description", "Seconds since the CMS sent or confirmed the content."}, {"required", true},
			{"schema", object{{"type", "integer"}, {"minimum", 0}}},
		}},
		{"Cache-Control", text("How long the response can be kept (RFC 9111, RFC 5861).", `^public, max-age=[0-9]+(, [a-z-]+=[0-9]+)*$`,
			"public, max-age=0, stale-if-error=86400")},
		{"CDN-Cache-Control", text("The same for CDNs that know this field (RFC 9213).", `^public, max-age=[0-9]+(, [a-z-]+=[0-9]+)*$`,
			"public, max-age=0, stale-if-error=86400")},
		{"Cache-Groups", text("Groups by which a cache can be purged (RFC 9875).", `^"[^"]+"(, "[^"]+")*$`, `"banners", "vitrine"`)},
		{"Cache-Status", text("How the response was obtained (RFC 9211).", `^vitrine; (hit|fwd=[a-z-]+)(; .*)?$`, "vitrine; hit; ttl=42")},
		{"X-Request-Id", text("The request's id, also in the log: the client's, or a new one.", `^[A-Za-z0-9._:=+/@-]{1,128}$`, "6f1a52e0c3b94d17-0000000000000001")},
		{"No-Store", text("Errors are not stored.", `^no-store$`, "no-store")},
		{"Retry-After", object{
			{"description", "Seconds to wait before trying again."}, {"required", true},
			{"schema", object{{"type", "integer"}, {"minimum", 1}}},
		}},
		{"Access-Control-Allow-Methods", object{{"description", "For allowed origins."}, {"schema", object{{"type", "string"}}}}},
		{"Access-Control-Allow-Headers", object{{"description", "For allowed origins."}, {"schema", object{{"type", "string"}}}}},
		{"Access-Control-Max-Age", object{{"description", "For allowed origins: seconds."}, {"schema", object{{"type", "integer"}}}}},
	}
}

// responseNames are the names of the shared answers.
var responseNames = map[string]string{
	"204": "Preflight",
	"304": "NotModified",
	"404": "UnknownFormat",
	"406": "NotAcceptable",
	"412": "PreconditionFailed",
	"500": "InternalError",
	"502": "BadGateway",
	"503": "Unavailable",
	"504": "GatewayTimeout",
}

// responses are shared by the routes.
func responses() object {
	// The names are those of headers that are always there; more are there at times.
	failure := func(doc string, names []string, more ...string) object {
		all := refs("headers", names)
		for _, name := range more {
			all = append(all, member{name, object{{"schema", object{{"type", "string"}}}}})
		}
		return object{{"description", doc}, {"headers", all}, {"content", contentOf(ref("schemas", "Error"), object{{"detail", doc}})}}
	}
	uncached := func(doc string, names []string, more ...string) object {
		f := failure(doc, append([]string{"X-Request-Id"}, names...), more...)
		all, _ := f[1].value.(object)
		f[1].value = append(all, member{"Cache-Control", ref("headers", "No-Store")})
		return f
	}
	route := []string{"Allow", "Vary"}
	forwarded := []string{"Allow", "Vary", "Cache-Status"}
	return object{
		{"Preflight", object{
			{"description", "The answer to a CORS preflight."},
			{"headers", refs("headers", []string{
				"Allow", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age",
			})},
		}},
		{"NotModified", object{
			{"description", "The client's copy is current."},
			{"headers", refs("headers", keptHeaders)},
		}},
		{"UnknownFormat", failure("No such format.", route)},
		{"NotAcceptable", failure("Accept allows neither JSON nor HTML. HTML is answered with JSON.", route)},
		{"PreconditionFailed", uncached("A precondition of the request failed.", route)},
		{"InternalError", uncached("An internal error.", nil, "Cache-Status")},
		{"BadGateway", uncached("The CMS answered, but not with this document, and no copy is held.", forwarded)},
		{"Unavailable", uncached("The CMS cannot be reached, or the breaker is open, and no copy is held; or vitrine accepts no "+
			"more connections.", []string{"Retry-After"}, forwarded...)},
		{"GatewayTimeout", uncached("The CMS did not answer in time, and no copy is held.", forwarded)},
	}
}
