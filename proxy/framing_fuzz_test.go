package proxy

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// cut cuts a text before the places, which count from the one before.
func cut(text string, places []byte) (pieces []string) {
	for _, p := range places {
		if n := int(p); n > 0 && n < len(text) {
			pieces, text = append(pieces, text[:n]), text[n:]
		}
	}
	return append(pieces, text)
}

// FuzzCuts: whatever is sent is answered by HTTP, in JSON if it is an error, and how the bytes of a
// connection are cut changes nothing about the answers.
func FuzzCuts(f *testing.F) {
	for _, sent := range []string{
		get + "HEAD /cms/rules HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + get,
		head + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n" + get,
		head + "Expect: 100-continue\r\nContent-Length: 3\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\nabc" + get,
		get + "\r\n\r\n" + head + "Content-Length: 600\r\n\r\n",
		"GET /gvapp/ HTTP/1.1\nHost: x\n\n" + get,
		"GET /" + strings.Repeat("x", 2000) + " HTTP/1.1\r\n",
		"GET /gvapp/singlebanner?ordering=-id&format=api HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br;q=0.5, *\r\nIf-None-Match: W/\"x\", \"y\"\r\nX-Forwarded-For: 1.2.3.4, ::1\r\n\r\n",
		"OPTIONS /gvapp/ HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n",
		head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\nBREW / HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add(sent, []byte{1, 30, 3, 100})
	}
	s := quietServer(f, Options{
		CORSOrigins: []string{"https://a.example"}, TrustedProxies: []string{"127.0.0.1"},
		AccessLog: slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // so that the lines are made
		Limits:    Limits{MaxTargetBytes: 512, MaxHeaderBytes: 1024, MaxBodyBytes: 512},
	})
	f.Fuzz(func(t *testing.T, sent string, places []byte) {
		answers := ask(s, sent)
		checkFirst(t, sent, answers)
		whole, pieces := answered(answers), answered(ask(s, cut(sent, places)...))
		if whole != pieces {
			t.Fatalf("%q is answered\n%s, and in pieces %q\n%s", sent, whole, cut(sent, places), pieces)
		}
		single := make([]byte, len(sent))
		for i := range single {
			single[i] = 1
		}
		if got := answered(ask(s, cut(sent, single)...)); got != whole {
			t.Fatalf("%q is answered\n%s, and byte by byte\n%s", sent, whole, got)
		}
	})
}

// checkFirst looks at the first of the answers: where it ends depends on how its request is read.
func checkFirst(t *testing.T, sent, answers string) {
	t.Helper()
	if answers == "" {
		return // nothing was asked
	}
	got := readReply(t, bufio.NewReader(strings.NewReader(answers)), http.MethodHead)
	switch got.StatusCode {
	case 200, 204, 301, 304:
	case 400, 404, 405, 406, 408, 412, 413, 414, 431, 505:
		if got.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%q: %d in %s", sent, got.StatusCode, got.Header.Get("Content-Type"))
		}
	default:
		t.Fatalf("%q: %d", sent, got.StatusCode)
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" || (got.Header.Get("X-Request-Id") != "") != (got.Header.Get("Cache-Control") == "no-store") || got.Header.Values("Set-Cookie") != nil {
		t.Fatalf("%q: %v", sent, got.Header)
	}
}

// answered are answers without what differs from time to time: dates and ids, and the 100 that is
// sent while content has not come.
func answered(answers string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.ReplaceAll(answers, "HTTP/1.1 100 Continue\r\n\r\n", ""), "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		switch name {
		case "Date", "Age", "Cache-Status", "Last-Modified", "X-Request-Id", "CDN-Cache-Control":
			line = name
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// FuzzRequests: vitrine reads the requests that net/http reads, or fewer.
func FuzzRequests(f *testing.F) {
	for _, sent := range []string{
		get + "HEAD /cms/rules HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + get,
		head + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n" + get,
		head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + get,
		head + "Content-Length: 3\r\n\r\nabc" + get,
		head + "Content-Length: 3\r\nX: y\r\n z\r\n\r\nabc" + get,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", get + "\n" + get,
		"GET /\x8f HTTP/1.0\r\n\r\n",
	} {
		f.Add(sent)
	}
	var log bytes.Buffer
	s := newRig(f, Options{AccessLog: slog.New(slog.NewJSONHandler(&log, nil)), Limits: Limits{MaxTargetBytes: 512, MaxHeaderBytes: 1024, MaxBodyBytes: 512}}).connections
	f.Fuzz(func(t *testing.T, sent string) {
		log.Reset()
		ask(s, sent)
		from := bufio.NewReader(strings.NewReader(sent))
		for i, line := range logged(t, &log) {
			status, _ := line["status"].(float64)
			if line["method"] == nil || status == 400 || status == 413 || status == 408 || status == 431 || status == 505 {
				break // refused
			}
			for { // net/http skips no empty lines
				next, err := from.Peek(1)
				if err != nil || !bytes.ContainsAny(next, "\r\n") {
					break
				}
				_, _ = from.Discard(1)
			}
			want, err := http.ReadRequest(from)
			if err != nil {
				if strings.Contains(err.Error(), "invalid URL escape") || strings.Contains(err.Error(), "parse ") {
					return // a percent sign that begins no encoding, and a target that is no URL, are ordinary text to vitrine
				}
				t.Fatalf("request %d of %q is %v to vitrine, and %v to net/http", i, sent, line, err)
			}
			target := string([]rune(want.RequestURI)) // JSON has U+FFFD for a byte that is not UTF-8
			if line["method"] != want.Method || line["target"] != target {
				t.Fatalf("request %d of %q is %v to vitrine, and %s %s to net/http", i, sent, line, want.Method, want.RequestURI)
			}
			if _, err := io.Copy(io.Discard, want.Body); err != nil {
				t.Fatalf("the body of request %d of %q is %v to net/http, and answered by %s", i, sent, err, strconv.Itoa(int(status)))
			}
		}
	})
}
