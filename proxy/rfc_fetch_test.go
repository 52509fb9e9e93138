package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFetchCORSProtocol(t *testing.T) {
	const origin = "\nOrigin: https://shop.example"
	const preflight = origin + "\nAccess-Control-Request-Method: GET\nAccess-Control-Request-Headers: if-none-match,traceparent"
	const exposed, methods = "Access-Control-Expose-Headers: ETag, Age, Cache-Status, Retry-After, X-Request-Id", "Access-Control-Allow-Methods: GET, HEAD, OPTIONS"
	run(t, Options{CORSOrigins: []string{"*"}}, []rule{
		{"3.3.3 any origin", getBanners[:len(getBanners)-1] + origin, 200, []string{"Access-Control-Allow-Origin: *", "Timing-Allow-Origin: *", exposed, "Vary: Accept, Accept-Encoding"}, nil},
		{"3.3.3 also to a request that names none, for the caches' sake", getBanners, 200, []string{"Access-Control-Allow-Origin: *", exposed}, nil},
		{"3.3.3 on a 304", getBanners + "If-None-Match: TAG" + origin, 304, []string{"Access-Control-Allow-Origin: *", exposed}, nil},
		{"3.3.3 on a redirect", "GET /gvapp" + origin, 301, []string{"Access-Control-Allow-Origin: *"}, nil},
		{"3.3.3 on an error, so that a page can read which", "GET /nope" + origin, 404, []string{"Access-Control-Allow-Origin: *", "Timing-Allow-Origin: *", exposed}, nil},
		{"3.3.3 on an error of HTTP itself", "GET /gvapp/?" + strings.Repeat("x", 5000) + origin, 414, []string{"Access-Control-Allow-Origin: *"}, nil},
		{"3.3.5 never with credentials", getBanners + "Cookie: a=b" + origin, 200, []string{"Access-Control-Allow-Credentials: -"}, nil},
		{"4.8 a preflight", "OPTIONS " + bannersPath + preflight, 204, []string{"Access-Control-Allow-Origin: *", methods, "Access-Control-Allow-Headers: *", "Access-Control-Max-Age: 7200", "Content-Length: -", "Content-Type: -"}, nil},
		{"4.8 names what the asterisk does not cover", "OPTIONS " + bannersPath + preflight, 204, nil, func(t *testing.T, got reply) {
			for _, name := range []string{"*", "Authorization", "If-None-Match", "Traceparent"} {
				if !slices.Contains(strings.Split(got.Header.Get("Access-Control-Allow-Headers"), ", "), name) {
					t.Errorf("%s is not allowed: %v", name, got.Header)
				}
			}
		}},
		{"4.8 a method that is not allowed is not granted", "OPTIONS " + bannersPath + origin + "\nAccess-Control-Request-Method: DELETE", 204, []string{methods}, nil},
		{"4.8 OPTIONS without a request method is no preflight", "OPTIONS " + bannersPath + origin, 200, []string{"Content-Type: application/json"}, nil},
		{"3.7 anybody may load it", getBanners, 200, []string{"Cross-Origin-Resource-Policy: cross-origin"}, nil},
	})
	const listed = "Access-Control-Allow-Origin: https://shop.example"
	run(t, Options{CORSOrigins: []string{"https://shop.example", "http://localhost:3000"}}, []rule{
		{"3.3.3 a listed origin is named", getBanners[:len(getBanners)-1] + origin, 200, []string{listed, "Timing-Allow-Origin: https://shop.example", exposed, "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"3.3.3 another is not", getBanners + "Origin: https://other.example", 200, []string{"Access-Control-Allow-Origin: -", "Timing-Allow-Origin: -", "Access-Control-Expose-Headers: -", "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"3.3.3 origins are compared whole", getBanners + "Origin: https://shop.example.evil.example", 200, []string{"Access-Control-Allow-Origin: -"}, nil},
		{"3.2 the null origin is not listed", getBanners + "Origin: null", 200, []string{"Access-Control-Allow-Origin: -"}, nil},
		{"3.3.3 with none, the answer varies all the same", getBanners, 200, []string{"Access-Control-Allow-Origin: -", "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"4.8 a preflight of another gets no permission", "OPTIONS " + bannersPath + "\nOrigin: https://other.example\nAccess-Control-Request-Method: GET", 204, []string{"Access-Control-Allow-Origin: -", "Access-Control-Allow-Methods: -", "Vary: Origin"}, nil},
		{"3.3.3 on an error, which varies too", "GET /nope" + origin, 404, []string{listed, "Timing-Allow-Origin: https://shop.example", "Vary: Origin"}, nil},
		{"3.3.3 on a redirect", "GET /gvapp" + origin, 301, []string{listed, "Vary: Origin"}, nil},
		{"4.8 a preflight of a listed one", "OPTIONS " + bannersPath + preflight, 204, []string{listed, methods, "Vary: Origin"}, nil},
		{"3.7 only their own may load it without asking", getBanners, 200, []string{"Cross-Origin-Resource-Policy: same-origin"}, nil},
	})
	run(t, Options{}, []rule{
		{"3.3.3 no origin", getBanners + origin[1:], 200, []string{"Access-Control-Allow-Origin: -", "Vary: Accept, Accept-Encoding"}, nil},
		{"4.8 a preflight without any", "OPTIONS " + bannersPath + preflight, 204, []string{"Access-Control-Allow-Origin: -", "Access-Control-Allow-Methods: -", "Vary: -"}, nil},
	})
}

func TestSecurityFieldsForAnAPIAreInEveryAnswerWithABodyAndThoseForPagesInNone(t *testing.T) {
	var rules []rule
	for request, status := range map[string]int{
		getBanners: 200, getBanners + "If-None-Match: TAG": 304, "HEAD /gvapp/": 200, "OPTIONS /gvapp/": 200, "GET /gvapp": 301,
		"GET /nope": 404, "POST /gvapp/": 405, "BREW /gvapp/": 405, getBanners + "Accept: image/avif": 406, "GET /" + strings.Repeat("x", 20000): 414,
		"GET / HTTP/1.1\nX: " + strings.Repeat("x", 20000): 431,
	} {
		of := []string{
			"X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy: same-origin",
			"Strict-Transport-Security: -", // not over TLS here
			"X-Frame-Options: -", "X-XSS-Protection: -", "Referrer-Policy: -", "Permissions-Policy: -",
			"Cross-Origin-Opener-Policy: -", "Cross-Origin-Embedder-Policy: -", "Server: -", "X-Powered-By: -", "Set-Cookie: -",
		}
		if status == 304 { // which is about a body that has them
			of[0], of[1] = "X-Content-Type-Options: -", "Content-Security-Policy: -"
		}
		rules = append(rules, rule{fmt.Sprintf("%d %.40q", status, request), request, status, of, nil})
	}
	run(t, Options{HSTS: time.Hour}, rules)
}
