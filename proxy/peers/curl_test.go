package peers

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vitrine/proxy/proxytest"
	"vitrine/upstream/shape"
)

// curl runs curl and returns the header and body of the response.
func curl(t *testing.T, args ...string) (head, body string) {
	t.Helper()
	program := curlTool.path(t)
	out, err := exec.CommandContext(t.Context(), program, append([]string{"--silent", "--show-error", "--include", "--max-time", "10"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s", args, err, out)
	}
	head, body, _ = strings.Cut(string(out), "\r\n\r\n")
	return head, body
}

// has reports whether a header has the line; the field's name is case-insensitive.
func has(head, line string) bool {
	return slices.ContainsFunc(strings.Split(head, "\r\n"), func(l string) bool { return strings.EqualFold(l, line) })
}

// field returns the value of a header field.
func field(head, name string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		if n, value, _ := strings.Cut(line, ": "); strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

func TestCurlGetsAllRoutesOverHTTP10And11(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	for _, version := range []string{"--http1.0", "--http1.1"} {
		for r, path := range routes {
			head, body := curl(t, version, "http://"+v.Addr+path)
			doc, err := shape.Normalize(r, []byte(body))
			if err != nil || string(doc.Body) != body || !strings.HasPrefix(head, "HTTP/1.1 200 ") && !strings.HasPrefix(head, "HTTP/1.0 200 ") {
				t.Errorf("%s %s: %v\n%s", version, path, err, head)
			}
			// RFC 9112, section 9.3: an HTTP/1.0 client gets a persistent connection only if it
			// asks for one.
			if closes := has(head, "Connection: close"); closes != (version == "--http1.0") {
				t.Errorf("%s %s: Connection: close is %v", version, path, closes)
			}
		}
	}
	for _, x := range v.log.take() {
		if (x.ProtoMinor == 0) != (x.Close) {
			t.Errorf("%s: close is %v", x.Proto, x.Close)
		}
	}
}

func TestCurlHeadHasTheHeadersOfGet(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	url := "http://" + v.Addr + "/gvapp/"
	curl(t, url) // so that both are hits
	got, _ := curl(t, url)
	head, body := curl(t, "--head", url)
	if body != "" {
		t.Errorf("HEAD has a body: %.40q", body)
	}
	for line := range strings.SplitSeq(got, "\r\n") {
		switch name, _, _ := strings.Cut(line, ":"); strings.ToLower(name) {
		case "date", "age", "x-request-id", "cache-status": // these can change from one second to the next
		default:
			if !has(head, line) {
				t.Errorf("HEAD lacks %q", line)
			}
		}
	}
}

func TestCurlCompressedDecodesToTheDocument(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	url := "http://" + v.Addr + "/gvapp/"
	_, plain := curl(t, url)
	head, body := curl(t, "--compressed", url)
	if coding := field(head, "Content-Encoding"); coding == "" || body != plain {
		t.Errorf("Content-Encoding %q, %d bytes, want the %d of the document", coding, len(body), len(plain))
	}
}

func TestCurlConditionalRequestsAreAnsweredWith304(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	url, dir := "http://"+v.Addr+"/cms/rules/", t.TempDir()
	tag, doc := filepath.Join(dir, "etag"), filepath.Join(dir, "doc")
	curl(t, "--etag-save", tag, "--output", doc, url)
	if kept, err := os.ReadFile(tag); err != nil || len(kept) < 4 {
		t.Fatalf("curl kept the ETag %q, %v", kept, err)
	}
	if head, body := curl(t, "--etag-compare", tag, url); !strings.HasPrefix(head, "HTTP/1.1 304 ") || body != "" {
		t.Errorf("--etag-compare: %s\n%.40q", head, body)
	}
	first, _ := curl(t, url)
	modified := field(first, "Last-Modified")
	if head, _ := curl(t, "--time-cond", modified, url); !strings.HasPrefix(head, "HTTP/1.1 304 ") {
		t.Errorf("--time-cond %s: %s", modified, head)
	}
	if head, _ := curl(t, "--time-cond", "Sat, 01 Jan 2000 00:00:00 GMT", url); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Errorf("modified since 2000: %s", head)
	}
}

// TestCurlRangesAreAnsweredWhole: RFC 9110, section 14.2: a server can ignore Range, but then must
// not answer 206.
func TestCurlRangesAreAnsweredWhole(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	url := "http://" + v.Addr + "/cms/rules/"
	_, whole := curl(t, url)
	for _, asked := range []string{"0-9", "-10", "0-0,5-6", "99999999-"} {
		if head, body := curl(t, "--range", asked, url); !strings.HasPrefix(head, "HTTP/1.1 200 ") || body != whole || field(head, "Content-Range") != "" {
			t.Errorf("%s: %s, %d bytes", asked, head, len(body))
		}
	}
}

func TestCurlFollowsTheRedirectToTheRightSlash(t *testing.T) {
	v := startVitrine(t, proxytest.Options{}, curlTool)
	_, want := curl(t, "http://"+v.Addr+"/gvapp/singlebanner?ordering=-id")
	head, body := curl(t, "--location", "http://"+v.Addr+"/gvapp/singlebanner/?ordering=-id")
	// With --location both headers are printed, one after the other.
	if _, second, ok := strings.Cut(body, "\r\n\r\n"); ok {
		body = second
	}
	if !strings.HasPrefix(head, "HTTP/1.1 301 ") || body != want {
		t.Errorf("%s\n%.60q, want %.60q", head, body, want)
	}
}

// TestPipelinedRequestsAreAnsweredInOrder: RFC 9112, section 9.3.2.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	v := startVitrine(t, proxytest.Options{})
	conn, err := net.Dial("tcp", v.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	targets := []string{"/gvapp/", "/nothing", "/cms/rules/?format=api", "/gvapp", "/gvapp/singlebanner?ordering=-id", "/cms/rules/"}
	var all strings.Builder
	for i, target := range targets {
		closing := ""
		if i == len(targets)-1 {
			closing = "Connection: close\r\n"
		}
		all.WriteString("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + closing + "\r\n")
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, target := range targets {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		alone := get(t, "http://"+v.Addr+target)
		if target == "/gvapp" { // which get checks
			if resp.StatusCode != http.StatusMovedPermanently {
				t.Errorf("%s: %d", target, resp.StatusCode)
			}
			continue
		}
		if resp.StatusCode != alone.StatusCode || string(body) != string(alone.body) {
			t.Errorf("%s: %d %.60q, alone %d %.60q", target, resp.StatusCode, body, alone.StatusCode, alone.body)
		}
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("after the last answer: %q, %v", rest, err)
	}
}
