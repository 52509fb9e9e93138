package proxy

// Names of header fields. Those of requests are in the spelling that fasthttp gives them; those of answers are sent as
// they stand here, since people look for them with grep.
var (
	keyAge             = []byte("Age")
	keyAllow           = []byte("Allow")
	keyCacheControl    = []byte("Cache-Control")
	keyCacheGroups     = []byte("Cache-Groups")
	keyCDNCacheControl = []byte("CDN-Cache-Control")
	keyCacheStatus     = []byte("Cache-Status")
	keyContentEncoding = []byte("Content-Encoding")
	keyETag            = []byte("ETag")
	keyHSTS            = []byte("Strict-Transport-Security")
	keyLastModified    = []byte("Last-Modified")
	keyLocation        = []byte("Location")
	keyNoSniff         = []byte("X-Content-Type-Options")
	keyRequestID       = []byte("X-Request-Id")
	keyResourcePolicy  = []byte("Cross-Origin-Resource-Policy")
	keyRetryAfter      = []byte("Retry-After")
	keySecurityPolicy  = []byte("Content-Security-Policy")
	keyTraceParent     = []byte("Traceparent")
	keyVary            = []byte("Vary")

	keyAllowOrigin   = []byte("Access-Control-Allow-Origin")
	keyAllowMethods  = []byte("Access-Control-Allow-Methods")
	keyAllowHeaders  = []byte("Access-Control-Allow-Headers")
	keyExposeHeaders = []byte("Access-Control-Expose-Headers")
	keyMaxAge        = []byte("Access-Control-Max-Age")
)

// Values that are the same in every answer that has them.
var (
	valueAllow   = []byte("GET, HEAD, OPTIONS")
	valueAny     = []byte("*")
	valueHTML    = []byte("text/html; charset=utf-8")
	valueJSON    = []byte("application/json")
	valueNoSniff = []byte("nosniff")
	valueOrigin  = []byte("Origin")

	// Should a browser ever show an answer as a page, that page may do nothing and be framed by nobody.
	valueSecurityPolicy = []byte("default-src 'none'; frame-ancestors 'none'")
)

// cacheGroups are the groups by which a cache may purge what it keeps (RFC 9875, section 2), for each of routes: the
// resource, in all its orderings, indentations and codings, and all that vitrine answers.
var cacheGroups = [len(routes)][]byte{
	[]byte(`"catalogue", "vitrine"`), []byte(`"rules", "vitrine"`), []byte(`"banners", "vitrine"`),
}
