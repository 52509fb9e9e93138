package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// logged are the lines of an access log.
func logged(t *testing.T, log fmt.Stringer) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for d := json.NewDecoder(strings.NewReader(log.String())); ; {
		var line map[string]any
		if err := d.Decode(&line); err == io.EOF {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func TestTheAccessLogHasALineForEveryRequest(t *testing.T) {
	log := new(testkit.Buffer)
	r := newRig(t, Options{AccessLog: slog.New(slog.NewJSONHandler(log, nil)), TrustedProxies: []string{"127.0.0.0/8"}, MaxBodyBytes: 10})
	r.holdRecorded(t, shape.Banners, "edge-singlebanner")
	r.sources[shape.Rules].fail(upstream.ErrUnreachable)

	r.send(t, "GET /gvapp/singlebanner?ordering=-id HTTP/1.1\nHost: cms.example.org\nAccept-Encoding: br\nX-Forwarded-For: 198.51.100.1\nX-Request-Id: abc\n"+
		"Referer: https://example.org/\nUser-Agent: \"quoted\" agent\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.send(t, "HEAD /gvapp/ HTTP/1.1\nHost: x\nTraceparent: none")
	r.get(t, "/cms/rules/")
	r.get(t, "/nope")
	r.send(t, "GET /gvapp/ HTTP/1.1\nHost: x\nContent-Length: 11\n\n12345678901")
	r.send(t, "hello")

	lines := logged(t, log)
	if len(lines) != 6 {
		t.Fatalf("%d lines: %s", len(lines), log)
	}
	for i, line := range lines {
		if line["msg"] != "request" || line["level"] != "INFO" || line["time"] == nil || line["request_id"] == "" {
			t.Errorf("line %d: %v", i, line)
		}
		for _, varying := range []string{"time", "msg", "level", "duration", "request_id"} {
			if varying != "request_id" || line["request_id"] != "abc" {
				delete(line, varying)
			}
		}
	}
	for i, want := range []string{
		`bytes:<n> cache_status:vitrine; hit; ttl=<n> client:198.51.100.1 encoding:br host:cms.example.org method:GET protocol:HTTP/1.1 referer:https://example.org/ request_id:abc status:200 target:/gvapp/singlebanner?ordering=-id trace_id:0af7651916cd43dd8448eb211c80319c user_agent:"quoted" agent`,
		`bytes:0 cache_status:vitrine; hit; ttl=<n> client:127.0.0.1 host:x method:HEAD protocol:HTTP/1.1 status:200 target:/gvapp/`,
		`bytes:39 cache_status:vitrine; fwd=miss; detail=upstream-unreachable client:127.0.0.1 host:example.org method:GET protocol:HTTP/1.1 status:503 target:/cms/rules/`,
		`bytes:23 client:127.0.0.1 host:example.org method:GET protocol:HTTP/1.1 status:404 target:/nope`,
		`bytes:36 client:127.0.0.1 host:x method:GET protocol:HTTP/1.1 status:413 target:/gvapp/`,
		`bytes:31 client:127.0.0.1 status:400`,
	} {
		var got []string
		for _, name := range slices.Sorted(maps.Keys(lines[i])) {
			got = append(got, fmt.Sprintf("%s:%v", name, lines[i][name]))
		}
		text := strings.Join(got, " ")
		for _, n := range []string{"ttl=60", "ttl=59", "bytes:" + fmt.Sprint(lines[0]["bytes"])} {
			if i == 0 || strings.HasPrefix(n, "ttl") {
				name, _, _ := strings.Cut(n, "=")
				name, _, _ = strings.Cut(name, ":")
				text = strings.Replace(text, n, name+n[len(name):len(name)+1]+"<n>", 1)
			}
		}
		if text != want {
			t.Errorf("line %d: %s\nwant %s", i, text, want)
		}
	}
	if n, ok := lines[0]["bytes"].(float64); !ok || n <= 0 || n > 20_000 {
		t.Errorf("%v bytes of brotli", lines[0]["bytes"])
	}
}

func TestOnlyATrustedProxyNamesTheClientInTheAccessLog(t *testing.T) {
	for trusted, client := range map[string]string{"127.0.0.0/8": "198.51.100.1", "10.0.0.0/8": "127.0.0.1"} {
		log := new(testkit.Buffer)
		r := newRig(t, Options{AccessLog: slog.New(slog.NewJSONHandler(log, nil)), TrustedProxies: []string{trusted}})
		r.get(t, "/gvapp/", "X-Forwarded-For: 198.51.100.1")
		if lines := logged(t, log); len(lines) != 1 || lines[0]["client"] != client {
			t.Errorf("trusting %s: logged %v, want the client %s", trusted, lines, client)
		}
	}
}
