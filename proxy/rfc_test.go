package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"vitrine/cache"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// A rule is a sentence of an RFC as a request and what has to hold of its answer. TAG, MODIFIED and LENGTH stand for
// what is said of the document in use, BROTLI for the tag of its variant in that coding.
type rule struct {
	name    string // begins with the section
	request string
	status  int
	// want are fields of the answer: "Name: value", or "Name: -" for one that must be absent, "Name: *" for any value.
	want []string
	// check is what cannot be said by a field.
	check func(t *testing.T, got reply)
}

// The document of most rules: bannersModified is in the past, so that dates can be on either side of it.
var bannersModified = time.Date(2024, time.February, 29, 12, 0, 0, 0, time.UTC)

const bannersPath = "/gvapp/singlebanner"

func newRuleRig(t *testing.T, o Options) (r *rig, expand *strings.Replacer) {
	t.Helper()
	r = newRig(t, o)
	doc, err := shape.Normalize(shape.Banners, readRecorded(t, "singlebanner-get").body)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d := &cache.Document{
		Body: doc.Body, ETag: cache.ETag(doc.Body),
		FetchedAt: now.Add(-10500 * time.Millisecond), ChangedAt: bannersModified, FreshUntil: now.Add(time.Minute),
	}
	r.sources[shape.Banners].holdDocument(t, d, cache.Status{Hit: true, Detail: cache.DetailMemory})
	tag := r.get(t, bannersPath).Header.Get("ETag")
	br := r.get(t, bannersPath, "Accept-Encoding: br").Header.Get("ETag")
	return r, strings.NewReplacer("TAG", tag, "BROTLI", br, "LENGTH", strconv.Itoa(len(doc.Body)), "MODIFIED", bannersModified.Format(http.TimeFormat))
}

// run sends each rule's request to the server.
func run(t *testing.T, o Options, rules []rule) {
	t.Helper()
	r, expand := newRuleRig(t, o)
	for _, tc := range rules {
		t.Run(tc.name, func(t *testing.T) {
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
		{"5.4 a target too long is 414", "GET /gvapp/?" + strings.Repeat("x", 5000), 414, []string{"Content-Type: application/json"}, nil},
		{"5.4 a header too long is refused whole", getBanners + "X: " + strings.Repeat("x", 13000), 431, []string{"Content-Type: application/json"}, nil},
		{"6.6.1 Date is in every answer", "GET /nope", 404, []string{"Date: *"}, nil},

		{"7.1 a target in absolute form", "GET http://example.org" + bannersPath, 200, []string{"ETag: TAG"}, nil},
		{"7.6.1 Connection: close is granted", getBanners + "Connection: close", 200, nil, func(t *testing.T, got reply) {
			if !got.Close {
				t.Error("kept open")
			}
		}},

		{"8.3 Content-Type", getBanners, 200, []string{"Content-Type: application/json"}, nil},
		{"8.4 Content-Encoding is only for what is encoded", getBanners, 200, []string{"Content-Encoding: -"}, nil},
		{"8.6 Content-Length is of the body as sent", getBanners + "Accept-Encoding: gzip", 200, nil, func(t *testing.T, got reply) {
			if got.ContentLength != int64(len(got.body)) || len(got.TransferEncoding) != 0 {
				t.Errorf("%d for %d bytes, %v", got.ContentLength, len(got.body), got.TransferEncoding)
			}
		}},
		{"8.8.2 Last-Modified in the fixed format", getBanners, 200, []string{"Last-Modified: Thu, 29 Feb 2024 12:00:00 GMT"}, nil},
		{"8.8.2.1 Last-Modified is not after Date", getBanners, 200, nil, func(t *testing.T, got reply) {
			date, err1 := http.ParseTime(got.Header.Get("Date"))
			modified, err2 := http.ParseTime(got.Header.Get("Last-Modified"))
			if err1 != nil || err2 != nil || modified.After(date) {
				t.Errorf("%v", got.Header)
			}
		}},
		{"8.8.3 a strong entity-tag", getBanners, 200, nil, func(t *testing.T, got reply) {
			if tag := got.Header.Get("ETag"); tagLength([]byte(tag)) != len(tag) {
				t.Errorf("ETag: %s", tag)
			}
		}},
		{"8.8.3.3 each coding has its own tag", getBanners + "Accept-Encoding: br", 200, []string{"ETag: BROTLI"}, nil},

		{"9.2 an unknown method is answered, not cut off", "BREW " + bannersPath, 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"9.3.1 a body with GET means nothing", getBanners + "Content-Length: 5\n\nhello", 200, []string{"ETag: TAG"}, nil},
		{"9.3.2 HEAD has the fields of GET and no body", "HEAD " + bannersPath, 200, []string{"ETag: TAG", "Content-Length: LENGTH", "Last-Modified: MODIFIED"}, none},
		{"9.3.2 HEAD of an error", "HEAD /nope", 404, []string{"Content-Length: 23"}, none},
		{"9.3.3 POST", "POST " + bannersPath, 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"9.3.4 PUT", "PUT " + bannersPath, 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"9.3.5 DELETE", "DELETE " + bannersPath, 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"9.3.6 CONNECT", "CONNECT example.org:443", 404, nil, nil},
		{"9.3.7 OPTIONS", "OPTIONS " + bannersPath, 200, []string{"Allow: GET, HEAD, OPTIONS", "Content-Type: application/json"}, nil},
		{"9.3.7 OPTIONS of the server is of no resource", "OPTIONS *", 404, nil, nil},
		{"9.3.8 TRACE repeats nothing", "TRACE " + bannersPath + "\nCookie: secret", 405, nil, func(t *testing.T, got reply) {
			if strings.Contains(string(got.body), "secret") {
				t.Errorf("%s", got.body)
			}
		}},

		{"10.1.1 Expect: 100-continue", getBanners + "Expect: 100-continue\nContent-Length: 5\n\nhello", 200, nil, nil},
		{"10.2.1 Allow", getBanners, 200, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"10.2.2 Location of a redirect, query kept", "GET /gvapp?a=b", 301, []string{"Location: /gvapp/?a=b"}, nil},

		{"12.5.1 no Accept is any", getBanners, 200, nil, nil},
		{"12.5.1 an exact type", getBanners + "Accept: application/json", 200, nil, nil},
		{"12.5.1 a range", getBanners + "Accept: application/*", 200, nil, nil},
		{"12.5.1 types are compared without case", getBanners + "Accept: Application/JSON", 200, nil, nil},
		{"12.5.1 another type is 406", getBanners + "Accept: image/avif", 406, []string{"Vary: Accept", "Content-Type: application/json"}, nil},
		{"12.5.1 another type among others", getBanners + "Accept: image/avif, */*;q=0.1", 200, nil, nil},
		{"12.5.3 no Accept-Encoding: identity is what every client reads", getBanners, 200, []string{"Content-Encoding: -"}, nil},
		{"12.5.3 an empty one: no coding", getBanners + "Accept-Encoding:", 200, []string{"Content-Encoding: -"}, nil},
		{"12.5.3 a coding", getBanners + "Accept-Encoding: gzip", 200, coded("gzip"), nil},
		{"12.5.3 x-gzip is gzip", getBanners + "Accept-Encoding: x-gzip", 200, coded("gzip"), nil},
		{"12.5.3 codings are compared without case", getBanners + "Accept-Encoding: GZIP", 200, coded("gzip"), nil},
		{"12.5.3 the highest weight wins", getBanners + "Accept-Encoding: br;q=0.5, gzip;q=0.8", 200, coded("gzip"), nil},
		{"12.5.3 the weight of identity counts", getBanners + "Accept-Encoding: gzip;q=0.5, identity", 200, []string{"Content-Encoding: -"}, nil},
		{"12.5.3 a weight of 0 forbids", getBanners + "Accept-Encoding: br;q=0, zstd;q=0, gzip", 200, coded("gzip"), nil},
		{"12.5.3 asterisk", getBanners + "Accept-Encoding: *", 200, coded("br"), nil},
		{"12.5.3 asterisk is for what is not listed", getBanners + "Accept-Encoding: *;q=0, zstd", 200, coded("zstd"), nil},
		{"12.5.3 identity forbidden, another allowed", getBanners + "Accept-Encoding: identity;q=0, gzip;q=0.1", 200, coded("gzip"), nil},
		{"12.1 nothing acceptable: identity rather than an error", getBanners + "Accept-Encoding: identity;q=0, compress", 200, []string{"Content-Encoding: -"}, nil},
		{"12.5.3 what is malformed is skipped", getBanners + "Accept-Encoding: br;q=2, ;;, gzip", 200, coded("gzip"), nil},
		{"12.5.4 Accept-Language selects nothing, and Vary does not say so", getBanners + "Accept-Language: fr", 200, []string{"Vary: Accept, Accept-Encoding"}, nil},
		{"12.5.5 Vary of a small body", "GET /gvapp/\nAccept-Encoding: br", 200, []string{"Vary: Accept"}, nil},
		{"12.5.5 Vary on a 304 is that of the 200", getBanners + "If-None-Match: TAG", 304, []string{"Vary: Accept, Accept-Encoding"}, nil},

		{"13.1.1 If-Match: the tag", getBanners + "If-Match: TAG", 200, nil, nil},
		{"13.1.1 If-Match: asterisk", getBanners + "If-Match: *", 200, nil, nil},
		{"13.1.1 If-Match: another", getBanners + `If-Match: "x"`, 412, []string{"Content-Type: application/json", "Cache-Control: no-store"}, nil},
		{"13.1.1 If-Match: strong comparison", getBanners + "If-Match: W/TAG", 412, nil, nil},
		{"13.1.2 If-None-Match: the tag", getBanners + "If-None-Match: TAG", 304, []string{"ETag: TAG"}, none},
		{"13.1.2 If-None-Match: a list", getBanners + `If-None-Match: "x", W/"y", TAG`, 304, nil, none},
		{"13.1.2 If-None-Match: weak comparison", getBanners + "If-None-Match: W/TAG", 304, nil, nil},
		{"13.1.2 If-None-Match: asterisk", getBanners + "If-None-Match: *", 304, nil, nil},
		{"13.1.2 If-None-Match: another", getBanners + `If-None-Match: "x"`, 200, nil, nil},
		{"13.1.2 If-None-Match: another coding's", getBanners + "If-None-Match: BROTLI", 200, nil, nil},
		{"13.1.2 If-None-Match: of the coding asked for", getBanners + "Accept-Encoding: br\nIf-None-Match: BROTLI", 304, []string{"ETag: BROTLI"}, nil},
		{"13.1.2 If-None-Match: without quotes it is none", getBanners + "If-None-Match: x", 200, nil, nil},
		{"13.1.2 If-None-Match with HEAD", "HEAD " + bannersPath + "\nIf-None-Match: TAG", 304, nil, none},
		{"13.1.3 If-Modified-Since: the same", getBanners + "If-Modified-Since: MODIFIED", 304, nil, none},
		{"13.1.3 If-Modified-Since: later", getBanners + "If-Modified-Since: Fri, 01 Mar 2024 00:00:00 GMT", 304, nil, nil},
		{"13.1.3 If-Modified-Since: earlier", getBanners + "If-Modified-Since: Wed, 28 Feb 2024 00:00:00 GMT", 200, nil, nil},
		{"13.1.3 with 5.6.7 RFC 850's format", getBanners + "If-Modified-Since: Thursday, 29-Feb-24 12:00:00 GMT", 304, nil, nil},
		{"13.1.3 with 5.6.7 asctime's format", getBanners + "If-Modified-Since: Thu Feb 29 12:00:00 2024", 304, nil, nil},
		{"13.1.3 what is no date is ignored", getBanners + "If-Modified-Since: yesterday", 200, nil, nil},
		{"13.1.3 with another method it is ignored", "OPTIONS " + bannersPath + "\nIf-Modified-Since: MODIFIED", 200, nil, nil},
		{"13.1.3 with HEAD", "HEAD " + bannersPath + "\nIf-Modified-Since: MODIFIED", 304, nil, none},
		{"13.1.4 If-Unmodified-Since: the same", getBanners + "If-Unmodified-Since: MODIFIED", 200, nil, nil},
		{"13.1.4 If-Unmodified-Since: earlier", getBanners + "If-Unmodified-Since: Wed, 28 Feb 2024 00:00:00 GMT", 412, nil, nil},
		{"13.1.5 If-Range without ranges is ignored", getBanners + `If-Range: "x"`, 200, nil, nil},
		{"13.2.1 a condition does not hide an error", "GET /nope\nIf-None-Match: *", 404, nil, nil},
		{"13.2.1 nor that nothing is acceptable", getBanners + "Accept: image/avif\nIf-None-Match: *", 406, nil, nil},
		{"13.2.1 nor another method", "POST " + bannersPath + "\nIf-Match: \"x\"", 405, nil, nil},
		{"13.2.2 If-Match goes first", getBanners + "If-Match: \"x\"\nIf-None-Match: TAG", 412, nil, nil},
		{"13.2.2 If-Match rules out If-Unmodified-Since", getBanners + "If-Match: TAG\nIf-Unmodified-Since: Wed, 28 Feb 2024 00:00:00 GMT", 200, nil, nil},
		{"13.2.2 If-None-Match rules out If-Modified-Since", getBanners + "If-None-Match: \"x\"\nIf-Modified-Since: MODIFIED", 200, nil, nil},
		{"13.2.2 also when it matches", getBanners + "If-None-Match: TAG\nIf-Modified-Since: Wed, 28 Feb 2024 00:00:00 GMT", 304, nil, nil},

		{"14.2 a Range may be ignored", getBanners + "Range: bytes=0-9", 200, []string{"Content-Range: -", "Content-Length: LENGTH"}, nil},
		{"14.2 also one that cannot be satisfied", getBanners + "Range: bytes=99999-", 200, nil, nil},
		{"14.2 and with If-Range", getBanners + "Range: bytes=0-9\nIf-Range: TAG", 200, []string{"Content-Range: -"}, nil},
		{"14.3 so Accept-Ranges promises none", getBanners, 200, []string{"Accept-Ranges: -"}, nil},

		{"15.4.2 301", "GET /cms/rules", 301, []string{"Location: /cms/rules/", "Content-Length: 0"}, none},
		{"15.4.5 a 304 has what a cache needs", getBanners + "If-None-Match: TAG", 304, []string{
			"Cache-Control: *", "CDN-Cache-Control: *", "Cache-Groups: *", "Cache-Status: *", "Date: *", "ETag: TAG",
			"Last-Modified: MODIFIED", "Vary: Accept, Accept-Encoding", "Age: 10", "Access-Control-Allow-Origin: -"}, none},
		{"15.4.5 and nothing of the body", getBanners + "If-None-Match: TAG", 304, []string{
			"Content-Type: -", "Content-Encoding: -", "Content-Length: -", "Transfer-Encoding: -"}, none},
		{"15.5.5 404", "GET /nope", 404, []string{"Content-Type: application/json"}, nil},
		{"15.5.6 405 names what is allowed", "PATCH /gvapp/", 405, []string{"Allow: GET, HEAD, OPTIONS"}, nil},
		{"15.5.14 413", "POST /gvapp/\nContent-Length: 70000\n\n" + strings.Repeat("x", 70000), 413, []string{"Content-Type: application/json"}, nil},
		{"15.5.15 414", "GET /" + strings.Repeat("x", 20000), 414, []string{"Content-Type: application/json"}, nil},
	})
}

func TestRFC9112Messages(t *testing.T) {
	r, _ := newRuleRig(t, Options{})
	// exchange sends bytes as they are, and returns the answers to requests of these methods.
	exchange := func(t *testing.T, sent string, methods ...string) (all []reply, open bool) {
		conn := r.dial(t)
		defer conn.Close()
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(conn)
		for _, m := range methods {
			all = append(all, readReply(t, from, m))
		}
		last := all[len(all)-1]
		return all, !last.Close
	}
	for _, tc := range []struct {
		name, sent string
		methods    []string
		statuses   []int
		open       bool
	}{
		{"2.2 empty lines before a request are skipped", "\r\n\r\nGET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"GET"}, []int{200}, true},
		{"2.3 HTTP/1.0 closes", "GET /gvapp/ HTTP/1.0\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.3 HTTP/1.0 that asks to keep alive", "GET /gvapp/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", []string{"GET"}, []int{200}, true},
		{"2.3 HTTP/1.1 stays open", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"GET"}, []int{200}, true},
		{"3 no HTTP", "hello\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"3.2 HTTP/1.1 without Host", "GET /gvapp/ HTTP/1.1\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"3.2 two Hosts", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"3.2.2 absolute form", "GET http://elsewhere.example/gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"GET"}, []int{200}, true},
		{"3.2.4 asterisk form", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", []string{"OPTIONS"}, []int{404}, true},
		{"5.1 a blank before the colon", "GET /gvapp/ HTTP/1.1\r\nHost : x\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"6.3 two lengths that differ", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", []string{"GET"}, []int{400}, false},
		{"2.3 a later minor version is spoken as 1.1", "GET /gvapp/ HTTP/1.2\r\nHost: x\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"2.3 another major version is 505 (RFC 9110, 15.6.6)", "GET /gvapp/ HTTP/3.0\r\nHost: x\r\n\r\n", []string{"GET"}, []int{505}, false},
		{"2.3 also as the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{"GET"}, []int{505}, false},
		{"5 a NUL in a field", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"2.2 a bare CR in a field", "GET /gvapp/ HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"3.2 a blank in the target", "GET /gvapp/ x HTTP/1.1\r\nHost: x\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"6.1 chunks and a length: the chunks count, then it closes",
			"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\n",
			[]string{"GET"}, []int{200}, false},
		{"6.1 a transfer coding that is not known", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: foo\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"6.2 a length that is no number", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", []string{"GET"}, []int{400}, false},
		{"7.1 a chunked body", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []string{"GET"}, []int{200}, true},
		{"7.1 a chunk of no size", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", []string{"GET"}, []int{400}, false},
		{"9.3.2 pipelining keeps the order",
			"GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\nHEAD /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\nGET /gvapp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			[]string{"GET", "HEAD", "GET", "GET"}, []int{200, 200, 404, 301}, false},
		{"9.3.2 and skips bodies", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nGETGET /nope HTTP/1.1\r\nHost: x\r\n\r\n", []string{"GET", "GET"}, []int{200, 404}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all, open := exchange(t, tc.sent, tc.methods...)
			var statuses []int
			for _, got := range all {
				statuses = append(statuses, got.StatusCode)
				if got.StatusCode >= 400 && got.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%d is not told in JSON: %v", got.StatusCode, got.Header)
				}
			}
			if got := all[0].Header; got.Get("X-Content-Type-Options") == "" {
				t.Errorf("not an answer of ours: %v", got)
			}
			if !slices.Equal(statuses, tc.statuses) || open != tc.open {
				t.Errorf("%v, open %t; want %v, %t", statuses, open, tc.statuses, tc.open)
			}
		})
	}
}

func TestRFC3986Targets(t *testing.T) {
	run(t, Options{}, []rule{
		{"2.1 an unreserved character may be encoded", "GET /%67vapp/", 200, nil, nil},
		{"2.1 hexadecimal digits of either case", "GET /gvapp%2f", 200, nil, nil},
		{"2.1 a percent sign alone is itself", "GET /gvapp%", 404, nil, nil},
		{"2.1 and with one digit", "GET /gvapp/%2", 404, nil, nil},
		{"2.1 and with none", "GET /%zz", 404, nil, nil},
		{"2.1 an encoded NUL", "GET /gvapp/%00", 404, nil, nil},
		{"2.1 bytes that are no UTF-8", "GET /gvapp/%ff%fe", 404, nil, nil},
		{"3.3 a path is compared with case", "GET /GVAPP/", 404, nil, nil},
		{"3.4 an empty query", "GET /gvapp/?", 200, nil, nil},
		{"3.4 a question mark in a query", "GET /gvapp/?a?b", 200, nil, nil},
		{"3.4 a broken escape in a query", "GET " + bannersPath + "?ordering=%zz", 200, []string{"ETag: TAG"}, nil},
		{"3.5 a fragment is not sent, so it is of the query", "GET /gvapp/?a#b", 200, nil, nil},
		{"5.2.4 a dot segment is not removed for the client", "GET /./gvapp/", 404, nil, nil},
		{"5.2.4 nor two dots", "GET /x/../gvapp/", 404, nil, nil},
		{"5.2.4 nor encoded ones", "GET /%2e%2e/gvapp/", 404, nil, nil},
		{"6.2.2 duplicate slashes are another path", "GET //gvapp/", 404, nil, nil},
		{"6.2.2 at the end as well", "GET /gvapp//", 404, nil, nil},
		{"6.2.2 and never lead a redirect to another host", "GET //example.com/gvapp", 404, []string{"Location: -"}, nil},
	})
}

// dictionary parses a field by RFC 8941.
func dictionary(t *testing.T, got reply, name string) *httpsfv.Dictionary {
	t.Helper()
	d, err := httpsfv.UnmarshalDictionary(got.Header.Values(name))
	if err != nil {
		t.Fatalf("%s: %q: %v", name, got.Header.Values(name), err)
	}
	return d
}

// directive is the value of a member of a dictionary, nil if it is not there.
func directive(d *httpsfv.Dictionary, name string) any {
	member, ok := d.Get(name)
	if !ok {
		return nil
	}
	item, ok := member.(httpsfv.Item)
	if !ok {
		return fmt.Errorf("not an item: %v", member)
	}
	return item.Value
}

func TestRFC9111And9213CachesAreToldHowLongAndNoLonger(t *testing.T) {
	o := Options{
		MaxAge: 20 * time.Second, StaleWhileRevalidate: 5 * time.Minute, StaleIfError: time.Hour,
		CDNMaxAge: 30 * time.Second, CDNStaleWhileRevalidate: 10 * time.Second,
	}
	// The document is 10 s old and fresh for another 59.
	says := func(field string, want map[string]any) func(*testing.T, reply) {
		return func(t *testing.T, got reply) {
			d := dictionary(t, got, field)
			for name, value := range want {
				if have := directive(d, name); have != value {
					t.Errorf("%s: %v: %s is %v, want %v", field, got.Header.Values(field), name, have, value)
				}
			}
		}
	}
	run(t, o, []rule{
		{"9111 4.2.1 max-age counts from when the document was made", getBanners, 200, nil, says("Cache-Control", map[string]any{"max-age": int64(30)})},
		{"9111 4.2.3 which Age tells", getBanners, 200, []string{"Age: 10"}, nil},
		{"9111 4.3.4 a 304 renews both", getBanners + "If-None-Match: TAG", 304, []string{"Age: 10"}, says("Cache-Control", map[string]any{"max-age": int64(30)})},
		{"9111 4.1 an unknown parameter makes no other entry here", getBanners[:len(getBanners)-1] + "?utm_source=x", 200, []string{"ETag: TAG"}, nil},
		{"9111 5.2.1 no-cache of a request does not reach the CMS", getBanners + "Cache-Control: no-cache\nPragma: no-cache", 200, nil, func(t *testing.T, got reply) {
			if !strings.HasPrefix(got.Header.Get("Cache-Status"), "vitrine; hit") {
				t.Errorf("%v", got.Header)
			}
		}},
		{"9111 5.2.1.7 nor does only-if-cached fail", getBanners + "Cache-Control: only-if-cached", 200, nil, nil},
		{"9111 5.2.2.9 public: also for requests with Authorization", getBanners + "Authorization: Bearer x", 200, nil, says("Cache-Control", map[string]any{"public": true})},
		{"9111 5.2.2.10 no s-maxage beside CDN-Cache-Control", getBanners, 200, nil, says("Cache-Control", map[string]any{"s-maxage": nil})},
		{"9111 5.2.2.5 an error that passes is not stored", "GET /nope?" + strings.Repeat("x", 5000), 414, []string{"Cache-Control: no-store"}, nil},
		{"9111 5.3 no Expires beside max-age", getBanners, 200, []string{"Expires: -"}, nil},
		{"9111 5.4 no Pragma in an answer", getBanners, 200, []string{"Pragma: -"}, nil},
		{"5861 3 stale-while-revalidate ends with the freshness here", getBanners, 200, nil, says("Cache-Control", map[string]any{"stale-while-revalidate": int64(39)})},
		{"5861 4 stale-if-error", getBanners, 200, nil, says("Cache-Control", map[string]any{"stale-if-error": int64(3600)})},
		{"9213 2.1 CDN-Cache-Control is a dictionary", getBanners, 200, nil, says("CDN-Cache-Control", map[string]any{"public": true, "max-age": int64(40)})},
		{"9213 2.2 it is complete, since it is read instead", getBanners, 200, nil, says("CDN-Cache-Control", map[string]any{"stale-while-revalidate": int64(10), "stale-if-error": int64(3600)})},
		{"9213 2.2 on a 304 as well", getBanners + "If-None-Match: TAG", 304, nil, says("CDN-Cache-Control", map[string]any{"max-age": int64(40)})},
		{"9213 2.2 an error has none that could weaken no-store", "GET /nope?" + strings.Repeat("x", 5000), 414, []string{"CDN-Cache-Control: -"}, nil},
	})
}

func TestRFC9111Section4_2NoCacheKeepsADocumentPastItsFreshnessHere(t *testing.T) {
	for _, maxAge := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour} {
		pol := newPolicy(&Terms{
			MaxAge: maxAge, StaleWhileRevalidate: 24 * time.Hour, CDNMaxAge: maxAge, CDNStaleWhileRevalidate: 24 * time.Hour, StaleIfError: time.Hour,
		})
		for age := range int64(100) {
			for ttl := int64(-50); ttl < 200; ttl += 7 {
				for _, value := range [][]byte{pol.appendCacheControl(nil, age, ttl), pol.appendCDNCacheControl(nil, age, ttl)} {
					d, err := httpsfv.UnmarshalDictionary([]string{string(value)})
					if err != nil {
						t.Fatalf("%s: %v", value, err)
					}
					number := func(name string) int64 {
						n, _ := directive(d, name).(int64)
						return n
					}
					fresh := max(0, number("max-age")-age)
					if kept := fresh + number("stale-while-revalidate"); kept > max(0, ttl) || fresh > int64(maxAge/time.Second) {
						t.Fatalf("max-age %v, age %d, ttl %d: %s keeps it for %d", maxAge, age, ttl, value, kept)
					}
					if given := fresh + number("stale-if-error"); given > max(0, ttl)+3600 || ttl < 0 && given > 3600+ttl {
						t.Fatalf("max-age %v, age %d, ttl %d: %s gives it for %d in case of an error", maxAge, age, ttl, value, given)
					}
				}
			}
		}
	}
}

func TestRFC9211CacheStatusIsAListOfStructuredFields(t *testing.T) {
	r := newRig(t, Options{})
	doc := &cache.Document{Body: []byte("[]"), ETag: cache.ETag([]byte("[]")), FetchedAt: time.Now(), ChangedAt: time.Now(), FreshUntil: time.Now().Add(42500 * time.Millisecond)}
	token := func(s string) httpsfv.Token { return httpsfv.Token(s) }
	for _, tc := range []struct {
		name   string
		status cache.Status
		err    error
		want   map[string]any
	}{
		{"2.1 hit", cache.Status{Hit: true, Detail: cache.DetailMemory}, nil, map[string]any{"hit": true, "ttl": int64(42)}},
		{"2.8 detail", cache.Status{Hit: true, Detail: cache.DetailRedis}, nil, map[string]any{"hit": true, "ttl": int64(42), "detail": token("redis")}},
		{"2.2 fwd", cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Stored: true}, nil, map[string]any{"fwd": token("miss"), "fwd-status": int64(200), "stored": true}},
		{"2.3 fwd-status", cache.Status{Fwd: cache.FwdStale, FwdStatus: 304, Stored: true}, nil, map[string]any{"fwd": token("stale"), "fwd-status": int64(304), "stored": true}},
		{"2.6 collapsed", cache.Status{Fwd: cache.FwdMiss, Collapsed: true, Stored: true, Detail: cache.DetailLeaseElsewhere}, nil,
			map[string]any{"fwd": token("miss"), "stored": true, "collapsed": true, "detail": token("lease-elsewhere")}},
		{"2.4 a stale hit", cache.Status{Hit: true, Stale: true, Detail: cache.DetailIfError}, nil, map[string]any{"hit": true, "ttl": int64(42), "detail": token("stale-if-error")}},
		{"2.5 not stored", cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Detail: cache.DetailRedisAway}, nil, map[string]any{"fwd": token("miss"), "fwd-status": int64(200), "detail": token("redis-away")}},
		{"2 of an error", cache.Status{}, upstream.ErrUnreachable, map[string]any{"fwd": token("miss"), "detail": token("upstream-unreachable")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.sources[shape.Rules].holdDocument(t, doc, tc.status)
			if tc.err != nil {
				r.sources[shape.Rules].fail(tc.err)
			}
			got := r.get(t, "/cms/rules/")
			list, err := httpsfv.UnmarshalList(got.Header.Values("Cache-Status"))
			if err != nil || len(list) != 1 {
				t.Fatalf("%q: %v", got.Header.Values("Cache-Status"), err)
			}
			item, ok := list[0].(httpsfv.Item)
			if !ok || item.Value != token("vitrine") {
				t.Fatalf("%q", got.Header.Values("Cache-Status"))
			}
			have := map[string]any{}
			for _, name := range item.Params.Names() {
				have[name], _ = item.Params.Get(name)
			}
			if fmt.Sprint(have) != fmt.Sprint(tc.want) {
				t.Errorf("%v, want %v", have, tc.want)
			}
		})
	}
}

func TestRFC9875CacheGroupsNameTheResourceInWhateverForm(t *testing.T) {
	r, _ := newRuleRig(t, Options{})
	for path, resource := range map[string]string{"/gvapp/": "catalogue", "/cms/rules/": "rules", bannersPath: "banners"} {
		for _, form := range []string{"", "?format=api", "?ordering=-id", "?ordering=title_en,-id&x=" + strconv.Itoa(len(path))} {
			for _, field := range []string{"Accept-Encoding: br", "If-None-Match: *", "Accept: application/json; indent=2"} {
				got := r.get(t, path+form, field)
				list, err := httpsfv.UnmarshalList(got.Header.Values("Cache-Groups"))
				if err != nil {
					t.Fatal(err)
				}
				var groups []string
				for _, member := range list {
					item, ok := member.(httpsfv.Item)
					text, isString := item.Value.(string) // section 2: strings, and their parameters mean nothing
					if !ok || !isString || len(item.Params.Names()) != 0 {
						t.Fatalf("%v", got.Header)
					}
					groups = append(groups, text)
				}
				if !slices.Equal(groups, []string{resource, "vitrine"}) { // section 2.1: 32 groups of 32 characters at the least
					t.Errorf("%s%s, %s: %v", path, form, field, groups)
				}
			}
		}
	}
	for _, request := range []string{"GET /nope HTTP/1.1\nHost: x", "POST /gvapp/ HTTP/1.1\nHost: x", "OPTIONS /gvapp/ HTTP/1.1\nHost: x"} {
		if got := r.send(t, request); got.Header.Values("Cache-Groups") != nil || got.Header.Values("Cache-Group-Invalidation") != nil {
			t.Errorf("%s: %v", request, got.Header)
		}
	}
}

func TestFetchCORSProtocol(t *testing.T) {
	const origin = "\nOrigin: https://shop.example"
	const preflight = origin + "\nAccess-Control-Request-Method: GET\nAccess-Control-Request-Headers: if-none-match,traceparent"
	const exposed, methods = "Access-Control-Expose-Headers: ETag, Age, Cache-Status", "Access-Control-Allow-Methods: GET, HEAD, OPTIONS"
	run(t, Options{CORSOrigins: []string{"*"}}, []rule{
		{"3.3.3 any origin", getBanners[:len(getBanners)-1] + origin, 200, []string{"Access-Control-Allow-Origin: *", exposed, "Vary: Accept, Accept-Encoding"}, nil},
		{"3.3.3 also to a request that names none, for the caches' sake", getBanners, 200, []string{"Access-Control-Allow-Origin: *", exposed}, nil},
		{"3.3.3 on a 304", getBanners + "If-None-Match: TAG" + origin, 304, []string{"Access-Control-Allow-Origin: *", exposed}, nil},
		{"3.3.3 on a redirect", "GET /gvapp" + origin, 301, []string{"Access-Control-Allow-Origin: *"}, nil},
		{"3.3.3 on an error, so that a page can read which", "GET /nope" + origin, 404, []string{"Access-Control-Allow-Origin: *"}, nil},
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
		{"3.3.3 a listed origin is named", getBanners[:len(getBanners)-1] + origin, 200, []string{listed, exposed, "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"3.3.3 another is not", getBanners + "Origin: https://other.example", 200, []string{"Access-Control-Allow-Origin: -", "Access-Control-Expose-Headers: -", "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"3.3.3 origins are compared whole", getBanners + "Origin: https://shop.example.evil.example", 200, []string{"Access-Control-Allow-Origin: -"}, nil},
		{"3.2 the null origin is not listed", getBanners + "Origin: null", 200, []string{"Access-Control-Allow-Origin: -"}, nil},
		{"3.3.3 with none, the answer varies all the same", getBanners, 200, []string{"Access-Control-Allow-Origin: -", "Vary: Accept, Accept-Encoding, Origin"}, nil},
		{"4.8 a preflight of another gets no permission", "OPTIONS " + bannersPath + "\nOrigin: https://other.example\nAccess-Control-Request-Method: GET", 204, []string{"Access-Control-Allow-Origin: -", "Access-Control-Allow-Methods: -", "Vary: Origin"}, nil},
		{"3.7 only their own may load it without asking", getBanners, 200, []string{"Cross-Origin-Resource-Policy: same-origin"}, nil},
	})
}

func TestEveryFieldThatIsSentIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{RequestsPerSecond: 1, Burst: 8, CORSOrigins: []string{"*"}})
	r.sources[shape.Rules].fail(upstream.ErrUnreachable)
	r.holdRecorded(t, shape.Catalogue, "gvapp-get")
	for _, request := range []string{
		"GET /gvapp/", "GET /gvapp", "OPTIONS /gvapp/", "GET /cms/rules/", "POST /gvapp/", "GET /nope", "BREW /", "HEAD /gvapp/", "GET /", "GET /", "GET /",
	} {
		got := r.send(t, request+" HTTP/1.1\nHost: x\nOrigin: https://a.example\nAccess-Control-Request-Method: GET\nAccept-Encoding: br\nConnection: close")
		for name := range got.Header {
			if name != "Connection" && !strings.Contains(strings.ToLower(string(page)), "| `"+strings.ToLower(name)+"`") && !strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: docs/http.md does not tell of %s", request, name)
			}
			if strings.HasPrefix(name, "Access-Control-") && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("%s: docs/http.md does not tell of %s", request, name)
			}
		}
	}
}

func TestSecurityFieldsForAnAPIAreInEveryAnswerAndThoseForPagesInNone(t *testing.T) {
	var rules []rule
	for request, status := range map[string]int{
		getBanners: 200, getBanners + "If-None-Match: TAG": 304, "HEAD /gvapp/": 200, "OPTIONS /gvapp/": 200, "GET /gvapp": 301,
		"GET /nope": 404, "POST /gvapp/": 405, "BREW /gvapp/": 405, getBanners + "Accept: image/avif": 406, "GET /" + strings.Repeat("x", 20000): 414,
		"GET / HTTP/1.1\nX: " + strings.Repeat("x", 20000): 431,
	} {
		rules = append(rules, rule{fmt.Sprintf("%d %.40q", status, request), request, status, []string{
			"X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy: same-origin", "X-Request-Id: *",
			"Strict-Transport-Security: -", // not over TLS here
			"X-Frame-Options: -", "X-XSS-Protection: -", "Referrer-Policy: -", "Permissions-Policy: -",
			"Cross-Origin-Opener-Policy: -", "Cross-Origin-Embedder-Policy: -", "Server: -", "X-Powered-By: -", "Set-Cookie: -",
		}, nil})
	}
	run(t, Options{HSTS: time.Hour}, rules)
}
