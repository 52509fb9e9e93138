package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// hits are the kinds of hit that must cost nothing of our own.
var hits = []struct {
	name   string
	target string
	fields []string // name, value, …
}{
	{name: "identity", target: "/gvapp/"},
	{name: "brotli", target: "/gvapp/", fields: []string{"Accept-Encoding", "gzip, deflate, br, zstd"}},
	{name: "weighted", target: "/gvapp/", fields: []string{"Accept-Encoding", "br;q=0.1, gzip;q=0.8, *;q=0"}},
	{name: "not modified", target: "/gvapp/", fields: []string{"If-None-Match", "*"}},
	{name: "browser", target: "/gvapp/", fields: []string{
		"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"Accept-Encoding", "gzip, deflate, br", "Origin", "https://example.org", "X-Request-Id", "0ea1f9a2",
	}},
	{name: "a whole browser", target: "/gvapp/", fields: []string{
		"Sec-Ch-Ua", `"Chromium";v="140", "Not=A?Brand";v="24"`, "Sec-Ch-Ua-Mobile", "?0", "Sec-Ch-Ua-Platform", `"Linux"`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"Accept", "*/*", "Origin", "https://example.org", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty",
		"Referer", "https://example.org/visit", "Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "en-GB,en;q=0.9,nl;q=0.8",
		"If-None-Match", `"AAAAAAAAAAAAAAAA", W/"BBBBBBBBBBBBBBBB"`, "If-Modified-Since", "Fri, 20 Nov 2020 12:00:00 GMT",
		"Cookie", "a=b; c=d",
	}},
	{name: "traced", target: "/gvapp/", fields: []string{
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "rojo=00f067aa0ba902b7",
	}},
	{name: "indented", target: "/gvapp/?format=api"},
	{name: "ordered", target: "/gvapp/singlebanner?ordering=-redirect_link_fr"},
	{name: "ordered in another spelling", target: "/gvapp/singlebanner?x=1&ordering=%2Dredirect_link_fr,+foo"},
	{name: "unknown parameters", target: "/cms/rules/?a=1&b=%C3%A9&utm_source=x"},
}

// hotRequest is what a client sends for a hit.
func hotRequest(target string, fields []string) []byte {
	b := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: example.org\r\n", target)
	for i := 0; i < len(fields); i += 2 {
		b = fmt.Appendf(b, "%s: %s\r\n", fields[i], fields[i+1])
	}
	return append(b, "\r\n"...)
}

// A hot is a request as a connection hands it over, and the connection that its answer goes to.
type hot struct {
	wire wire
	conn *client
	ctx  fasthttp.RequestCtx
	w    *bufio.Writer
}

func newHot(t testing.TB, s *Connections, target string, fields []string) *hot {
	t.Helper()
	h := new(hot)
	h.conn = &client{Conn: &h.wire, of: &s.clients}
	h.ctx.Init2(h.conn, nil, true)
	h.w = bufio.NewWriter(h.conn)
	testkit.Must(t, h.ctx.Request.Read(bufio.NewReader(bytes.NewReader(hotRequest(target, fields)))))
	return h
}

// answer is what fasthttp does with a request that it has read.
func (h *hot) answer(t testing.TB, handler fasthttp.RequestHandler) {
	h.ctx.Response.Reset()
	h.ctx.Response.Header.SetNoDefaultContentType(true)
	handler(&h.ctx)
	testkit.Must(t, h.ctx.Response.Write(h.w))
	testkit.Must(t, h.w.Flush())
}

// quietServer holds the three recorded documents.
func quietServer(t testing.TB, o Options) *Connections {
	t.Helper()
	r := newRig(t, o)
	for res, name := range map[shape.Resource]string{shape.Catalogue: "gvapp-get", shape.Rules: "rules-get", shape.Banners: "singlebanner-get"} {
		r.holdRecorded(t, res, name)
	}
	return r.connections
}

func TestAHitAllocatesNothing(t *testing.T) {
	for _, o := range []Options{
		{CORSOrigins: []string{"*"}}, {CORSOrigins: []string{"https://example.org"}}, {CORSOrigins: []string{"http://localhost"}},
	} {
		s := quietServer(t, o)
		handler := s.handle
		for _, hit := range hits {
			t.Run(o.CORSOrigins[0]+" "+hit.name, func(t *testing.T) {
				h := newHot(t, s, hit.target, hit.fields)
				h.answer(t, handler)
				if code := h.ctx.Response.StatusCode(); code != 200 && code != 304 {
					t.Fatalf("status %d: %s", code, h.ctx.Response.Body())
				}
				if n := testing.AllocsPerRun(2000, func() {
					h.wire.answered.Reset()
					h.answer(t, handler)
				}); n != 0 && !testkit.Race {
					t.Errorf("%v allocations", n)
				}
			})
		}
	}
}

// BenchmarkHit is each kind of hit without a socket.
//
//	go test -run '^$' -bench BenchmarkHit ./proxy
func BenchmarkHit(b *testing.B) {
	s := quietServer(b, Options{CORSOrigins: []string{"*"}})
	for _, hit := range hits {
		h := newHot(b, s, hit.target, hit.fields)
		b.Run(strings.ReplaceAll(hit.name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.wire.answered.Reset()
				h.answer(b, s.handle)
			}
		})
	}
}
