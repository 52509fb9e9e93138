package proxy

import (
	"bufio"
	"bytes"
	"slices"
	"testing"

	"github.com/valyala/fasthttp"

	"vitrine/cmd/testkit"
)

func TestRFC9112Messages(t *testing.T) {
	r, _ := newRuleRig(t, Options{})
	// exchange sends bytes as they are, and returns the answers to requests of these methods.
	exchange := func(t *testing.T, sent string, methods ...string) (all []reply, open bool) {
		conn := r.dial(t)
		defer conn.Close()
		testkit.Write(t, conn, sent)
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
		{"6.1 also where the chunks are none", "POST /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\n", []string{"POST"}, []int{405}, false},
		{"6.1 identity is no transfer coding", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nContent-Length: 4\r\n\r\nbody", []string{"GET"}, []int{400}, false},
		{"6.1 not without a length either", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Identity\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"5.1 a field without a name", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"5.1 a blank within a name", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer Encoding: chunked\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"5.2 a line that continues another", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nX: y\r\n z: w\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"5.2 also by a tab", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\ttext/html\r\n\r\n", []string{"GET"}, []int{400}, false},
		{"9.6 close in upper case", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close in a list", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: TE, close\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close beside an upgrade", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade,close\r\nUpgrade: h2c\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close with blanks", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: \t close \r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close in a line of its own", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close and HTTP/1.0's keep-alive", "GET /gvapp/ HTTP/1.0\r\nConnection: keep-alive, CLOSE\r\n\r\n", []string{"GET"}, []int{200}, false},
		{"9.6 close with an error", "GET /nope HTTP/1.1\r\nHost: x\r\nconnection: cLoSe\r\n\r\n", []string{"GET"}, []int{404}, false},
		{"9.6 what only looks like it", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nConnection: closed, x-close\r\n\r\n", []string{"GET"}, []int{200}, true},
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

// TestManyLinesOfAFieldCostAsMuchAsALongOne: in bytes allocated, for a header of any size.
func TestManyLinesOfAFieldCostAsMuchAsALongOne(t *testing.T) {
	rig := newRig(t, Options{})
	for _, name := range []string{"Accept", "If-None-Match", "Connection", "Tracestate"} {
		header := bytes.Repeat([]byte(name+": x\r\n"), 2_000)
		var ctx fasthttp.RequestCtx
		ctx.Init2(&client{of: &rig.connections.clients}, nil, false)
		got := testkit.Allocated(func() {
			r := rig.server.newRequest(&ctx)
			r.readFields(header)
			r.release()
		})
		if got > 8*len(header)+64<<10 {
			t.Errorf("%s: %d bytes are allocated for a header of %d", name, got, len(header))
		}
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
		{"2.1 in a path that is redirected", "GET /gvap%70", 301, []string{"Location: /gvapp/"}, nil},
		{"3.3 the slash that is missing, or too many, is corrected", "GET /gvapp/singlebanner/?ordering=-id", 301, []string{"Location: /gvapp/singlebanner?ordering=-id"}, nil},
		{"3.3 but no other segment", "GET /gvapp/x", 404, nil, nil},
		{"3.3 nor one that is left out", "GET /cms/", 404, nil, nil},
		{"3.3 a plus sign is itself", "GET /gvapp+/", 404, nil, nil},
		{"3.3 a path is compared with case", "GET /GVAPP/", 404, nil, nil},
		{"3.4 an empty query", "GET /gvapp/?", 200, nil, nil},
		{"3.4 a query is kept as it is", "GET /gvapp?a=%20&b=//x", 301, []string{"Location: /gvapp/?a=%20&b=//x"}, nil},
		{"3.4 with a URL in it", "GET /gvapp/?u=http://example.com//x", 200, nil, nil},
		{"4.3 absolute form", "GET http://example.org/gvapp?a=b", 301, []string{"Location: /gvapp/?a=b"}, nil},
		{"3.4 a question mark in a query", "GET /gvapp/?a?b", 200, nil, nil},
		{"3.4 a broken escape in a query", "GET " + bannersPath + "?ordering=%zz", 200, []string{"ETag: TAG"}, nil},
		{"3.5 a fragment is not sent, so it is of the query", "GET /gvapp/?a#b", 200, nil, nil},
		{"5.2.4 a dot segment is not removed for the client", "GET /./gvapp/", 404, nil, nil},
		{"5.2.4 nor two dots", "GET /x/../gvapp/", 404, nil, nil},
		{"5.2.4 nor encoded ones", "GET /%2e%2e/gvapp/", 404, nil, nil},
		{"6.2.2 duplicate slashes are another path", "GET //gvapp/", 404, nil, nil},
		{"6.2.2 at the end as well", "GET /gvapp//", 404, nil, nil},
		{"6.2.2 also of one that has none", "GET /gvapp/singlebanner//", 404, nil, nil},
		{"6.2.2 and never lead a redirect to another host", "GET //example.com/gvapp", 404, []string{"Location: -"}, nil},
	})
}
