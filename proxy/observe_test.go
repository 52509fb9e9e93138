package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/verdict"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

func newMeter(t testing.TB) *metrics.Meter {
	t.Helper()
	return metrics.New("1.2.3", func() verdict.Snapshot { return verdict.Snapshot{} })
}

func TestEveryAnswerIsCountedOnceByWhatItWas(t *testing.T) {
	meter := newMeter(t)
	r := newRig(t, Options{Meter: meter, Limits: Limits{MaxTargetBytes: 100}})
	banners := r.sources[shape.Banners]
	doc := &cache.Document{Body: []byte(`[]`), ETag: `"x"`, FetchedAt: time.Now(), ChangedAt: time.Now(), FreshUntil: time.Now()}

	r.get(t, "/cms/rules/")
	r.get(t, "/cms/rules/?x=1")
	r.send(t, "HEAD /cms/rules/ HTTP/1.1\nHost: x")
	r.send(t, "GET /cms/rules/ HTTP/1.1\nHost: x\nIf-None-Match: *")
	r.send(t, "OPTIONS /cms/rules/ HTTP/1.1\nHost: x")
	r.send(t, "OPTIONS /cms/rules/ HTTP/1.1\nHost: x\nOrigin: https://a.example\nAccess-Control-Request-Method: GET")
	r.send(t, "POST /cms/rules/ HTTP/1.1\nHost: x\nContent-Length: 0")
	r.send(t, "BREW /cms/rules/ HTTP/1.1\nHost: x")
	r.get(t, "/cms/rules")
	r.get(t, "/wp-login.php")
	r.get(t, "/"+strings.Repeat("x", 200))
	banners.holdDocument(t, doc, cache.Status{Stale: true})
	r.get(t, "/gvapp/singlebanner")
	banners.holdDocument(t, doc, cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Collapsed: true})
	r.get(t, "/gvapp/singlebanner?ordering=id")
	banners.fail(upstream.ErrUnreachable)
	r.get(t, "/gvapp/singlebanner")
	banners.fail(upstream.ErrAnswer)
	r.get(t, "/gvapp/singlebanner")

	families, err := meter.Gather()
	testkit.Must(t, err)
	got, collapsed := map[string]float64{}, 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch n := m.GetCounter().GetValue(); f.GetName() {
			case "vitrine_requests_total":
				l := m.GetLabel() // by name: cache, code, resource
				if n > 0 {
					got[l[2].GetValue()+" "+l[1].GetValue()+" "+l[0].GetValue()] = n
				}
			case "vitrine_collapsed_total":
				collapsed += n
			}
		}
	}
	want := map[string]float64{
		"rules 200 hit": 3, "rules 304 hit": 1, "rules 200 none": 1, "rules 204 none": 1, "rules 405 none": 2,
		"other 301 none": 1, "other 404 none": 1, "other 414 none": 1,
		"banners 200 stale": 1, "banners 200 miss": 1, "banners 503 miss": 1, "banners 502 miss": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v,\nwant %v", got, want)
	}
	if collapsed != 1 {
		t.Errorf("%v collapsed, want 1", collapsed)
	}
}

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
	r := newRig(t, Options{AccessLog: slog.New(slog.NewJSONHandler(log, nil)), TrustedProxies: []string{"127.0.0.0/8"}, Limits: Limits{MaxBodyBytes: 10}})
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
		text := regexp.MustCompile(`ttl=(60|59)`).ReplaceAllString(strings.Join(got, " "), "ttl=<n>")
		if i == 0 {
			text = strings.Replace(text, "bytes:"+fmt.Sprint(lines[0]["bytes"]), "bytes:<n>", 1)
		}
		if text != want {
			t.Errorf("line %d: %s\nwant %s", i, text, want)
		}
	}
	if n, ok := lines[0]["bytes"].(float64); !ok || n <= 0 || n > 20_000 {
		t.Errorf("%v bytes of brotli", lines[0]["bytes"])
	}
}

func TestARequestCannotForgeALineOfTheAccessLog(t *testing.T) {
	text, json := new(testkit.Buffer), new(testkit.Buffer)
	for want, test := range map[string]struct {
		log *testkit.Buffer
		to  slog.Handler
	}{
		` user_agent="\" \\\xff\t msg=request \" level=INFO"`:      {text, slog.NewTextHandler(text, nil)},
		`,"user_agent":"\" \\\ufffd\t msg=request \" level=INFO"}`: {json, slog.NewJSONHandler(json, nil)},
	} {
		r := newRig(t, Options{AccessLog: slog.New(test.to)})
		r.send(t, "GET /gvapp/ HTTP/1.1\nHost: x\nUser-Agent: \" \\\xff\t msg=request \" level=INFO")
		if got := test.log.String(); !strings.HasSuffix(got, want+"\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("logged %swant %s", got, want)
		}
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
