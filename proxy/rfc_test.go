package proxy

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// A rule is a sentence of an RFC as a request and what has to hold of its answer. TAG, MODIFIED and
// LENGTH stand for what is said of the document in use.
type rule struct {
	name    string // begins with the section
	request string
	status  int
	// want are fields of the answer: "Name: value", or "Name: -" for one that must be absent,
	// "Name: *" for any value.
	want []string
	// check is what cannot be said by a field.
	check func(t *testing.T, got reply)
}

// The document of most rules: bannersModified is in the past, so that dates can be on either side
// of it.
var bannersModified = time.Date(2024, time.February, 29, 12, 0, 0, 0, time.UTC)

const bannersPath = "/gvapp/singlebanner"

func newRuleRig(t *testing.T, o Options) (r *rig, expand *strings.Replacer) {
	t.Helper()
	r = newRig(t, o)
	r.holdBanners(t)
	identity := r.get(t, bannersPath).Header
	return r, strings.NewReplacer("TAG", identity.Get("ETag"), "LENGTH", identity.Get("Content-Length"), "MODIFIED", bannersModified.Format(http.TimeFormat))
}

// holdBanners has banners that are 10 s old for the next half a second, of which a cache before the
// CMS had kept them for 4, and fresh for another 59.
func (r *rig) holdBanners(t *testing.T) {
	t.Helper()
	doc, err := shape.Normalize(shape.Banners, readRecorded(t, "singlebanner-get").body)
	testkit.Must(t, err)
	now := time.Now()
	r.sources[shape.Banners].holdDocument(t, &cache.Document{
		Body: doc.Body, ETag: cache.ETag(doc.Body),
		FetchedAt: now.Add(-6500 * time.Millisecond), Age: 4 * time.Second, ChangedAt: bannersModified, FreshUntil: now.Add(time.Minute),
	}, cache.Status{Detail: cache.DetailMemory})
}

// run sends each rule's request to the server.
func run(t *testing.T, o Options, rules []rule) {
	t.Helper()
	r, expand := newRuleRig(t, o)
	for _, tc := range rules {
		t.Run(tc.name, func(t *testing.T) {
			r.holdBanners(t)
			request := expand.Replace(tc.request)
			line, fields, _ := strings.Cut(request, "\n")
			if strings.Count(line, " ") == 1 {
				line += " HTTP/1.1"
			}
			got := r.send(t, strings.TrimSuffix(line+"\nHost: example.org\n"+fields, "\n"))
			if got.StatusCode != tc.status {
				t.Errorf("%s: %d %s, want %d", request, got.StatusCode, got.body, tc.status)
			}
			for _, w := range tc.want {
				name, value, _ := strings.Cut(expand.Replace(w), ": ")
				have, ok := got.Header[http.CanonicalHeaderKey(name)]
				switch {
				case value == "-" && ok, value == "*" && !ok:
					t.Errorf("%s: %s is %q", request, name, have)
				case value != "-" && value != "*" && strings.Join(have, ", ") != value:
					t.Errorf("%s: %s is %q, want %q", request, name, have, value)
				}
			}
			if tc.check != nil {
				tc.check(t, got)
			}
		})
	}
}

const getBanners = "GET " + bannersPath + "\n"

// What an Accept, an Accept-Encoding and a condition mean in each form is in the tables of package
// negotiate, and what the CMS answers as well, among the recorded answers.
func TestRFC9110Semantics(t *testing.T) {
	coded := func(coding string) []string {
		return []string{"Content-Encoding: " + coding, "Vary: Accept, Accept-Encoding"}
	}
	none := func(t *testing.T, got reply) {
		if len(got.body) != 0 {
			t.Errorf("a body: %s", got.body)
		}
	}
	run(t, Options{}, []rule{
		{"5.3 lines of one field are a list", getBanners + "If-None-Match: \"a\"\nIf-None-Match: TAG", 304, nil, nil},
		{"5.4 a header too long is refused whole", getBanners + "X: " + strings.Repeat("x", 13000), 431, []string{"Content-Type: application/json"}, nil},
		{"6.6.1 Date is in every answer", "GET /nope", 404, []string{"Date: *"}, nil},

		{"8.3 Content-Type", getBanners, 200, []string{"Content-Type: application/json"}, nil},
		{"8.6 Content-Length is of the body as sent", getBanners + "Accept-Encoding: gzip", 200, nil, func(t *testing.T, got reply) {
			if got.ContentLength != int64(len(got.body)) || len(got.TransferEncoding) != 0 {
				t.Errorf("%d for %d bytes, %v", got.ContentLength, len(got.body), got.TransferEncoding)
			}
		}},
		{"8.8.2 Last-Modified in the fixed format", getBanners, 200, []string{"Last-Modified: Thu, 29 Feb 2024 12:00:00 GMT"}, nil},
		{"8.8.3 a strong entity-tag", getBanners, 200, nil, func(t *testing.T, got reply) {
			if tag := got.Header.Get("ETag"); !strongTag.MatchString(tag) {
				t.Errorf("ETag: %s", tag)
			}
		}},

		{"9.2 an unknown method is answered, not cut off", "BREW " + bannersPath, 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"9.1 methods are compared with case", "get " + bannersPath, 405, nil, nil},
		{"9.1 an unknown method at an unknown path", "BREW /nope", 404, nil, nil},
		{"9.3.1 a body with GET means nothing", getBanners + "Content-Length: 5\n\nhello", 200, []string{"ETag: TAG"}, nil},
		{"9.3.2 HEAD of an error", "HEAD /nope", 404, []string{"Content-Length: 23"}, none},
		{"9.3.6 CONNECT", "CONNECT example.org:443", 404, nil, nil},
		{"9.3.8 TRACE repeats nothing", "TRACE " + bannersPath + "\nCookie: secret", 405, nil, func(t *testing.T, got reply) {
			if strings.Contains(string(got.body), "secret") {
				t.Errorf("%s", got.body)
			}
		}},

		{"10.2.1 Allow", getBanners, 200, []string{"Allow: GET, HEAD, OPTIONS"}, nil},

		{"12.5.1 another type is 406", getBanners + "Accept: image/avif", 406, []string{"Vary: Accept", "Content-Type: application/json"}, nil},
		{"12.5.3 no Accept-Encoding: identity is what every client reads", getBanners, 200, []string{"Content-Encoding: -"}, nil},
		{"12.5.3 asterisk", getBanners + "Accept-Encoding: *", 200, coded("br"), nil},
		{"12.5.4 Accept-Language selects nothing, and Vary does not say so", getBanners + "Accept-Language: fr", 200, []string{"Vary: Accept, Accept-Encoding"}, nil},
		{"12.5.5 Vary on a 304 is that of the 200", getBanners + "If-None-Match: TAG", 304, []string{"Vary: Accept, Accept-Encoding"}, nil},

		{"13.1.1 If-Match: another", getBanners + `If-Match: "x"`, 412, []string{"Content-Type: application/json", "Cache-Control: no-store"}, nil},
		{"13.1.2 If-None-Match: the tag", getBanners + "If-None-Match: TAG", 304, []string{"ETag: TAG"}, none},
		{"13.1.2 If-None-Match with HEAD", "HEAD " + bannersPath + "\nIf-None-Match: TAG", 304, nil, none},
		{"13.1.3 If-Modified-Since: the same", getBanners + "If-Modified-Since: MODIFIED", 304, nil, none},
		{"13.1.3 with another method it is ignored", "OPTIONS " + bannersPath + "\nIf-Modified-Since: MODIFIED", 200, nil, nil},
		{"13.1.4 If-Unmodified-Since: earlier", getBanners + "If-Unmodified-Since: Wed, 28 Feb 2024 00:00:00 GMT", 412, nil, nil},
		{"13.1.5 If-Range without ranges is ignored", getBanners + `If-Range: "x"`, 200, nil, nil},
		{"13.2.1 a condition does not hide an error", "GET /nope\nIf-None-Match: *", 404, nil, nil},
		{"13.2.1 nor that nothing is acceptable", getBanners + "Accept: image/avif\nIf-None-Match: *", 406, nil, nil},
		{"13.2.1 nor another method", "POST " + bannersPath + "\nIf-Match: \"x\"", 405, nil, nil},

		{"14.2 a Range may be ignored", getBanners + "Range: bytes=0-9", 200, []string{"Content-Range: -", "Content-Length: LENGTH"}, nil},
		{"14.2 also one that cannot be satisfied", getBanners + "Range: bytes=99999-", 200, nil, nil},
		{"14.2 and with If-Range", getBanners + "Range: bytes=0-9\nIf-Range: TAG", 200, []string{"Content-Range: -"}, nil},
		{"14.3 so Accept-Ranges promises none", getBanners, 200, []string{"Accept-Ranges: -"}, nil},

		{"15.4.5 a 304 has what a cache needs", getBanners + "If-None-Match: TAG", 304, []string{
			"Cache-Control: *", "CDN-Cache-Control: *", "Cache-Groups: *", "Cache-Status: *", "Date: *", "ETag: TAG",
			"Last-Modified: MODIFIED", "Vary: Accept, Accept-Encoding", "Age: 10", "Access-Control-Allow-Origin: -"}, none},
		{"15.4.5 and nothing of the body", getBanners + "If-None-Match: TAG", 304, []string{
			"Content-Type: -", "Content-Encoding: -", "Content-Length: -", "Transfer-Encoding: -"}, none},
		{"15.5.14 413", "POST /gvapp/\nContent-Length: 70000\n\n" + strings.Repeat("x", 70000), 413, []string{"Content-Type: application/json"}, nil},
		{"15.5.15 414", "GET /" + strings.Repeat("x", 20000), 414, []string{"Content-Type: application/json"}, nil},
	})
}

// strongTag is an entity-tag that is not weak (RFC 9110, section 8.8.3).
var strongTag = regexp.MustCompile(`^"[!#-~\x80-\xff]*"$`)

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
