package peers

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// A peer is a cache in front of vitrine. start runs it and returns its base URL.
type peer struct {
	name  string
	tools []tool
	start func(t *testing.T, v *vitrine) string
}

var caches = []peer{
	{name: "nginx", tools: []tool{nginxTool}, start: startNginx},
	{name: "Varnish", tools: []tool{varnishTool, gccTool}, start: startVarnish},
}

// behind runs a test behind each of the caches.
func behind(t *testing.T, environ []string, test func(t *testing.T, v *vitrine, p peer, url string)) {
	for _, p := range caches {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			v := startVitrine(t, environ, p.tools...)
			test(t, v, p, p.start(t, v))
		})
	}
}

// reply is an answer, its body read and not decoded.
type reply struct {
	*http.Response
	body []byte
}

// get sends exactly the given header fields, name and value in turn.
func get(t *testing.T, url string, fields ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	testkit.Must(t, err)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return reply{resp, body}
}

// client opens a connection for each request: after a stale response, nginx holds up the next one
// on the connection until it has revalidated.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, Timeout: patience}

// decoded undoes the content coding.
func (r reply) decoded(t *testing.T) []byte {
	t.Helper()
	var in io.Reader
	var err error
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "":
		return r.body
	case "gzip":
		in, err = gzip.NewReader(bytes.NewReader(r.body))
	case "br":
		in = brotli.NewReader(bytes.NewReader(r.body))
	case "zstd":
		in, err = zstd.NewReader(bytes.NewReader(r.body))
	default:
		t.Fatalf("Content-Encoding %s", coding)
	}
	testkit.Must(t, err)
	out, err := io.ReadAll(in)
	testkit.Must(t, err)
	return out
}

func TestFreshAnswersComeFromTheCacheInFront(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1m"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		for _, path := range routes {
			first := get(t, url+path)
			for range 5 {
				again := get(t, url+path)
				if again.StatusCode != 200 || again.Header.Get("ETag") != first.Header.Get("ETag") || !bytes.Equal(again.body, first.body) {
					t.Errorf("%s: %d %v, first %v", path, again.StatusCode, again.Header, first.Header)
				}
			}
			if asked := v.log.take(); len(asked) != 1 {
				t.Errorf("%s: six requests reached vitrine %d times", path, len(asked))
			}
		}
		for _, query := range []string{"?ordering=id", "?ordering=-id", "?ordering=id"} {
			get(t, url+routes[shape.Banners]+query)
		}
		if asked := v.log.take(); len(asked) != 2 {
			t.Errorf("two orderings reached vitrine %d times", len(asked))
		}
	})
}

// TestAStaleCopyIsRevalidatedBy304: after max-age the cache revalidates with the ETag, gets a 304,
// and serves its copy with the whole body.
func TestAStaleCopyIsRevalidatedBy304(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1s"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		first := get(t, url+"/gvapp/")
		v.log.take()
		var asked []exchange
		testkit.Eventually(t, "the cache asks again", func() bool {
			if got := get(t, url+"/gvapp/"); got.StatusCode != 200 || !bytes.Equal(got.body, first.body) {
				t.Fatalf("%d, %d bytes", got.StatusCode, len(got.body))
			}
			asked = append(asked, v.log.take()...)
			return len(asked) > 0
		})
		if len(asked) != 1 || asked[0].status != http.StatusNotModified || asked[0].Header.Get("If-None-Match") != first.Header.Get("ETag") {
			t.Errorf("asked %d times, answered %d to If-None-Match %s, want 304 to %s",
				len(asked), asked[0].status, asked[0].Header.Get("If-None-Match"), first.Header.Get("ETag"))
		}
		if n := v.cms.Count(shape.Catalogue); n != 1 {
			t.Errorf("the CMS was asked %d times", n)
		}
	})
}

// TestEncodingsAreKeptApart: each client gets a coding that it accepts, and each coding is fetched
// from vitrine once.
func TestEncodingsAreKeptApart(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1m"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		tags := map[string]string{}
		var document []byte
		for range 2 {
			for _, accept := range []string{"br", "zstd", "gzip", "identity"} {
				got := get(t, url+"/gvapp/", "Accept-Encoding", accept)
				coding := got.Header.Get("Content-Encoding")
				if coding == "" {
					coding = "identity"
				}
				if coding != accept {
					t.Errorf("Accept-Encoding %s is answered in %s", accept, coding)
				}
				if !slices.Contains(strings.Split(got.Header.Get("Vary"), ", "), "Accept-Encoding") {
					t.Errorf("Vary: %s", got.Header.Get("Vary"))
				}
				tags[got.Header.Get("ETag")] = accept
				if document == nil {
					document = got.decoded(t)
				}
				if !bytes.Equal(document, got.decoded(t)) {
					t.Errorf("%s is another document", accept)
				}
			}
		}
		if len(tags) != 4 {
			t.Errorf("ETags: %v", tags)
		}
		if asked := v.log.take(); len(asked) != 4 {
			t.Errorf("four codings reached vitrine %d times", len(asked))
		}
	})
}

// TestAStaleCopyIsServedWhileItIsRevalidated: within stale-while-revalidate nobody waits for
// vitrine, which gets one request, in the background.
func TestAStaleCopyIsServedWhileItIsRevalidated(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1s", "VITRINE_STALE_WHILE_REVALIDATE=30s"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		first := get(t, url+"/cms/rules/")
		v.log.take()
		v.cms.Set(shape.Rules, `[]`)
		v.Purge(string(shape.Rules))
		release := v.cms.Block() // vitrine cannot answer, so a client that waits for it is noticed
		defer release()
		var asked []exchange
		testkit.Eventually(t, "the cache asks in the background", func() bool {
			if got := get(t, url+"/cms/rules/"); !bytes.Equal(got.body, first.body) {
				t.Fatalf("%d %s", got.StatusCode, got.body)
			}
			asked = append(asked, v.log.take()...)
			return len(asked) > 0
		})
		if got := get(t, url+"/cms/rules/"); !bytes.Equal(got.body, first.body) {
			t.Errorf("while vitrine is being asked: %d %s", got.StatusCode, got.body)
		}
		if asked = append(asked, v.log.take()...); len(asked) != 1 {
			t.Errorf("vitrine is asked %d times at once", len(asked))
		}
		release()
		testkit.Eventually(t, "the new document shows", func() bool { return string(get(t, url+"/cms/rules/").body) == "[]" })
	})
}

// TestAStaleCopyIsServedWhileVitrineIsAway: within stale-if-error.
func TestAStaleCopyIsServedWhileVitrineIsAway(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1s", "VITRINE_STALE_IF_ERROR=1h"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		first := get(t, url+"/gvapp/")
		v.log.take()
		testkit.Eventually(t, "the copy is stale", func() bool {
			get(t, url+"/gvapp/")
			return len(v.log.take()) > 0
		})
		v.Stop()
		stale := time.Now().Add(1500 * time.Millisecond) // past max-age again
		testkit.Eventually(t, "stale copies were served", func() bool {
			if got := get(t, url+"/gvapp/"); got.StatusCode != 200 || !bytes.Equal(got.body, first.body) {
				t.Fatalf("%d %.200s", got.StatusCode, got.body)
			}
			return time.Now().After(stale)
		})
	})
}

// TestErrorsAreNotKept: responses with no-store are requested each time.
func TestErrorsAreNotKept(t *testing.T) {
	behind(t, []string{"VITRINE_HTTP_MAX_AGE=1m"}, func(t *testing.T, v *vitrine, _ peer, url string) {
		v.cms.Set(shape.Rules, `{"no":"rules"}`)
		v.Purge(string(shape.Rules))
		testkit.Eventually(t, "the document is gone", func() bool { return get(t, "http://"+v.Addr+"/cms/rules/").StatusCode == http.StatusBadGateway })
		if got := get(t, url+"/cms/rules/"); got.StatusCode != http.StatusBadGateway {
			t.Fatalf("%d %s", got.StatusCode, got.body)
		}
		v.cms.Set(shape.Rules, `[]`)
		testkit.Eventually(t, "the document is served", func() bool { return get(t, url+"/cms/rules/").StatusCode == 200 })
	})
}

// nginxMain is a distribution's nginx.conf around conf.d, confined to a folder of the test.
const nginxMain = `daemon off;
pid DIR/nginx.pid;
error_log stderr warn;
worker_processes 1;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    include DIR/vitrine.conf;
}
`

func startNginx(t *testing.T, v *vitrine) string {
	t.Helper()
	program := nginxTool.path(t)
	dir, addr := t.TempDir(), harness.FreeAddress(t)
	_, port, err := net.SplitHostPort(addr)
	testkit.Must(t, err)
	write(t, dir, "vitrine.conf", harness.ProxyConfiguration(t, "nginx-cache.conf",
		"/var/cache/nginx/vitrine", filepath.Join(dir, "cache"),
		"127.0.0.1:8080", v.Addr,
		"listen 80;", "listen 127.0.0.1:"+port+";"))
	conf := strings.ReplaceAll(nginxMain, "DIR", dir)
	if os.Geteuid() == 0 { // otherwise the workers switch to a user who cannot read the test's folder
		conf = "user root;\n" + conf
	}
	harness.Run(t, addr, program, "-c", write(t, dir, "nginx.conf", conf), "-e", "stderr", "-p", dir)
	return "http://" + addr
}

// TestNginxNamesTheClientItself: what a client writes into X-Forwarded-For does not reach vitrine.
func TestNginxNamesTheClientItself(t *testing.T) {
	v := startVitrine(t, nil, nginxTool)
	url := startNginx(t, v)
	get(t, url+"/gvapp/", "X-Forwarded-For", "198.51.100.1, 203.0.113.9")
	asked := v.log.take()
	if len(asked) != 1 || asked[0].Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("vitrine was sent %v", asked)
	}
}

func startVarnish(t *testing.T, v *vitrine) string {
	t.Helper()
	url, _ := startVarnishAt(t, v, harness.FreeAddress(t))
	return url
}

// startVarnishAt has Varnish withdraw copies at tellers, and returns the visitors' URL.
func startVarnishAt(t *testing.T, v *vitrine, tellers string) (string, *os.Process) {
	t.Helper()
	program, addr := varnishTool.path(t), harness.FreeAddress(t)
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(v.Addr)
	testkit.Must(t, err)
	text := harness.ProxyConfiguration(t, "varnish.vcl",
		`.host = "127.0.0.1"`, `.host = "`+host+`"`, `.port = "8080"`, `.port = "`+port+`"`,
		"visitors=:80", "visitors="+addr, "tellers=127.0.0.1:8081", "tellers="+tellers, "/etc/varnish/varnish.vcl", filepath.Join(dir, "varnish.vcl"))
	write(t, dir, "varnish.vcl", text)
	_, shown, _ := strings.Cut(text, "\n# varnishd ")
	shown, _, _ = strings.Cut(shown, "\n")
	options := strings.Fields(shown)
	return "http://" + addr, harness.Run(t, addr, program, append([]string{"-F", "-j", "none", "-T", "none", "-n", dir}, options...)...)
}
