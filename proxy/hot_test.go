package proxy

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

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

// hotContext is a request as a connection would hand it over.
func hotContext(target string, fields []string) *fasthttp.RequestCtx {
	var req fasthttp.Request
	req.Header.SetMethod(fasthttp.MethodGet)
	req.Header.SetHost("example.org")
	req.SetRequestURI(target)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(&conn{}, nil, false)
	req.CopyTo(&ctx.Request)
	return ctx
}

// quiet are sources without the tests' mutex, as cache.Reader is.
func quietServer(t testing.TB, o Options) *Server {
	t.Helper()
	o.Meter = newMeter(t)
	r := newRig(t, o)
	for res, name := range map[shape.Resource]string{shape.Catalogue: "gvapp-get", shape.Rules: "rules-get", shape.Banners: "singlebanner-get"} {
		r.holdRecorded(t, res, name)
	}
	return r.server
}

func TestAHitAllocatesNothing(t *testing.T) {
	for _, o := range []Options{
		{CORSOrigins: []string{"*"}}, {CORSOrigins: []string{"https://example.org"}}, {CORSOrigins: []string{"http://localhost"}, RequestsPerSecond: 1e9},
	} {
		handler := quietServer(t, o).app.Server().Handler
		for _, hit := range hits {
			t.Run(o.CORSOrigins[0]+" "+hit.name, func(t *testing.T) {
				ctx := hotContext(hit.target, hit.fields)
				handler(ctx)
				if code := ctx.Response.StatusCode(); code != 200 && code != 304 {
					t.Fatalf("status %d: %s", code, ctx.Response.Body())
				}
				if n := testing.AllocsPerRun(2000, func() {
					ctx.Response.Reset()
					handler(ctx)
				}); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		}
	}
}

// BenchmarkHit puts each kind of hit beside a bare Fiber handler that writes the same status, fields and bytes.
//
//	go test -run '^$' -bench BenchmarkHit ./proxy
func BenchmarkHit(b *testing.B) {
	handler := quietServer(b, Options{CORSOrigins: []string{"*"}}).app.Server().Handler
	for _, hit := range hits {
		name := strings.ReplaceAll(hit.name, " ", "-")
		b.Run(name+"/vitrine", func(b *testing.B) { benchmark(b, handler, hotContext(hit.target, hit.fields)) })
		b.Run(name+"/bare", func(b *testing.B) {
			ctx := hotContext(hit.target, hit.fields)
			handler(ctx)
			benchmark(b, bare(ctx), hotContext(hit.target, hit.fields))
		})
	}
}

func benchmark(b *testing.B, handler fasthttp.RequestHandler, ctx *fasthttp.RequestCtx) {
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		handler(ctx)
	}
}

// bare is a Fiber application whose one handler repeats the answer in ctx.
func bare(ctx *fasthttp.RequestCtx) fasthttp.RequestHandler {
	status, body := ctx.Response.StatusCode(), bytes.Clone(ctx.Response.Body())
	var names, values []string
	for name, value := range ctx.Response.Header.All() {
		if string(name) != "Content-Length" {
			names, values = append(names, string(name)), append(values, string(value))
		}
	}
	app := fiber.New(fiber.Config{DisableDefaultContentType: true, DisableStartupMessage: true})
	target, _, _ := strings.Cut(string(ctx.RequestURI()), "?")
	app.Get(target, func(c *fiber.Ctx) error {
		c.Status(status)
		for i := range names {
			c.Set(names[i], values[i])
		}
		c.Context().Response.SetBodyRaw(body)
		return nil
	})
	return app.Handler()
}
