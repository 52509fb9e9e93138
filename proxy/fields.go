package proxy

// Names of header fields as they are sent, so that grep finds them.
var (
	keyAllow           = []byte("Allow")
	keyCacheControl    = []byte("Cache-Control")
	keyCacheGroups     = []byte("Cache-Groups")
	keyCacheStatus     = []byte("Cache-Status")
	keyContentEncoding = []byte("Content-Encoding")
	keyContentType     = []byte("Content-Type")
	keyHSTS            = []byte("Strict-Transport-Security")
	keyLocation        = []byte("Location")
	keyNoSniff         = []byte("X-Content-Type-Options")
	keyRequestID       = []byte("X-Request-Id")
	keyResourcePolicy  = []byte("Cross-Origin-Resource-Policy")
	keyRetryAfter      = []byte("Retry-After")
	keySecurityPolicy  = []byte("Content-Security-Policy")
	keyVary            = []byte("Vary")

	keyAllowOrigin   = []byte("Access-Control-Allow-Origin")
	keyAllowMethods  = []byte("Access-Control-Allow-Methods")
	keyAllowHeaders  = []byte("Access-Control-Allow-Headers")
	keyExposeHeaders = []byte("Access-Control-Expose-Headers")
	keyMaxAge        = []byte("Access-Control-Max-Age")
)

// Values that never change.
var (
	valueAllow   = []byte("GET, HEAD, OPTIONS")
	valueAny     = []byte("*")
	valueHTML    = []byte("text/html; charset=utf-8")
	valueJSON    = []byte("application/json")
	valueNoSniff = []byte("nosniff")
	valueOrigin  = []byte("Origin")

	// If a browser ever shows an answer as a page, that page can do nothing and cannot be framed.
	valueSecurityPolicy = []byte("default-src 'none'; frame-ancestors 'none'")
)
