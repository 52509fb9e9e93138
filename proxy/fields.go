package proxy

// Names of header fields, in the spelling that fasthttp keeps them in.
var (
	keyAccept          = []byte("Accept")
	keyAcceptEncoding  = []byte("Accept-Encoding")
	keyAge             = []byte("Age")
	keyAllow           = []byte("Allow")
	keyCacheControl    = []byte("Cache-Control")
	keyCacheStatus     = []byte("Cache-Status")
	keyContentEncoding = []byte("Content-Encoding")
	keyETag            = []byte("Etag")
	keyIfMatch         = []byte("If-Match")
	keyIfModified      = []byte("If-Modified-Since")
	keyIfNoneMatch     = []byte("If-None-Match")
	keyIfUnmodified    = []byte("If-Unmodified-Since")
	keyLastModified    = []byte("Last-Modified")
	keyLocation        = []byte("Location")
	keyNoSniff         = []byte("X-Content-Type-Options")
	keyOrigin          = []byte("Origin")
	keyRequestID       = []byte("X-Request-Id")
	keyRequestMethod   = []byte("Access-Control-Request-Method")
	keyRetryAfter      = []byte("Retry-After")
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
)
