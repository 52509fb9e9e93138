package proxy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

func TestOptionsOfBannersNamesTheOrderingFields(t *testing.T) {
	got := newRig(t, Options{}).send(t, "OPTIONS /gvapp/singlebanner HTTP/1.1\nHost: x")
	recorded := readRecorded(t, "singlebanner-options")
	fields := `"` + strings.Join(shape.BannerFields(), `","`) + `"`
	want := strings.TrimSuffix(string(recorded.body), "}") + `,"ordering":[` + fields + `]}`
	if string(got.body) != want || got.Header.Get("Vary") != "Accept" || got.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("%s\n%v, want %s", got.body, got.Header, want)
	}
}

func TestFailuresSayWhichAndNothingElse(t *testing.T) {
	r := newRig(t, Options{})
	const secret = "http://user:secret@cms.internal:8000"
	for _, tc := range []struct {
		err        error
		status     int
		detail     string
		retryAfter string
		told       string
	}{
		{upstream.ErrAnswer, 502, "The CMS answered, but not with this document.", "", "upstream-answer"},
		{shapeRefusal(), 502, "The CMS answered, but not with this document.", "", "upstream-answer"},
		{upstream.ErrUnreachable, 503, "The CMS cannot be reached.", "5", "upstream-unreachable"},
		{&cache.RetryError{After: 1500 * time.Millisecond, Err: upstream.ErrUnreachable}, 503, "The CMS cannot be reached.", "2", "upstream-unreachable"},
		{&cache.RetryError{After: 1500 * time.Millisecond, Err: upstream.ErrAnswer}, 502, "The CMS answered, but not with this document.", "", "upstream-answer"},
		{upstream.ErrOpen, 503, "The CMS failed repeatedly and is left alone for a while.", "5", "breaker-open"},
		{upstream.ErrTimeout, 504, "The CMS did not answer in time.", "", "upstream-timeout"},
		{cache.ErrWait, 504, "The CMS did not answer in time.", "", ""},
		{errors.New("something else"), 500, "Internal server error.", "", ""},
	} {
		r.sources[shape.Rules].fail(fmt.Errorf("GET %s: %w", secret, tc.err))
		got := r.get(t, "/cms/rules/")
		status := "vitrine; fwd=miss"
		if tc.told != "" {
			status += "; detail=" + tc.told
		}
		if got.StatusCode != tc.status || string(got.body) != `{"detail":"`+tc.detail+`"}` ||
			got.Header.Get("Retry-After") != tc.retryAfter || got.Header.Get("Cache-Control") != "no-store" ||
			got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Status") != status {
			t.Errorf("%v: %d %s %v", tc.err, got.StatusCode, got.body, got.Header)
		}
		if strings.Contains(fmt.Sprint(got.Header, string(got.body)), "secret") {
			t.Errorf("%v: the answer gives the cause away", tc.err)
		}
	}
	if log := r.log.String(); !strings.Contains(log, "something else") {
		t.Errorf("what nobody foresaw is not in the log: %s", log)
	}
	r.sources[shape.Rules].hold(t, []byte("[]"))
	if got := r.get(t, "/cms/rules/"); got.StatusCode != http.StatusOK {
		t.Errorf("%d after the failure is over", got.StatusCode)
	}
}

// shapeRefusal is what a client of the CMS returns for a document that is not in shape.
func shapeRefusal() error {
	_, err := shape.Normalize(shape.Rules, []byte(`[{"id":null}]`))
	return fmt.Errorf("%w: %w", upstream.ErrAnswer, err)
}

func TestPanicsBecomeJSONAndAreLogged(t *testing.T) {
	r := newRig(t, Options{})
	r.sources[shape.Rules].holdDocument(t, &cache.Document{Body: []byte("[]")}, cache.Status{})
	r.sources[shape.Rules].answer.Value = nil
	got := r.get(t, "/cms/rules/")
	if got.StatusCode != http.StatusInternalServerError || string(got.body) != `{"detail":"Internal server error."}` || got.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	doubtful := r.send(t, "GET /cms/rules/ HTTP/1.1\nHost: x\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n")
	if doubtful.StatusCode != http.StatusInternalServerError || !doubtful.Close {
		t.Errorf("%d, and the connection stays open whose next request is in doubt", doubtful.StatusCode)
	}
	if log := r.log.String(); !strings.Contains(log, "nil pointer") || !strings.Contains(log, "answer.go") {
		t.Errorf("log: %s", log)
	}
	if got := r.get(t, "/gvapp/"); got.StatusCode != http.StatusOK {
		t.Errorf("%d after the panic", got.StatusCode)
	}
}

// TestRequestIDsAreOnlyInAnswersThatNoCacheKeeps: a cache would give the id of the first visitor to
// all who come after.
func TestRequestIDsAreOnlyInAnswersThatNoCacheKeeps(t *testing.T) {
	log := new(testkit.Buffer)
	r := newRig(t, Options{AccessLog: slog.New(slog.NewJSONHandler(log, nil))})
	r.sources[shape.Rules].fail(upstream.ErrUnreachable)
	if got := r.get(t, "/cms/rules/", "X-Request-Id: 7c1f-abc").Header.Get("X-Request-Id"); got != "7c1f-abc" {
		t.Errorf("%q", got)
	}
	seen := map[string]bool{}
	for _, sent := range []string{"", "two words", strings.Repeat("x", 129), `a"b`, "é"} {
		got := r.get(t, "/cms/rules/", "X-Request-Id: "+sent).Header.Get("X-Request-Id")
		if len(got) < 20 || !requestID.Match([]byte(got)) || seen[got] {
			t.Errorf("%q: %q", sent, got)
		}
		seen[got] = true
	}
	for _, target := range []string{"/gvapp/", "/gvapp", "/nope", "/gvapp/?format=xml"} {
		if got := r.get(t, target, "X-Request-Id: 7c1f-abc"); got.Header.Get("X-Request-Id") != "" || got.Header.Get("Cache-Control") == "no-store" {
			t.Errorf("%s: %v", target, got.Header)
		}
	}
	for i, line := range logged(t, log) {
		if id := line["request_id"]; id == "" || (i == 0 || i > 5) && id != "7c1f-abc" {
			t.Errorf("line %d: %v", i, line)
		}
	}
}

func TestUnusableOptionsAreRefused(t *testing.T) {
	sources, meter := map[shape.Resource]Documents{}, newMeter(t)
	for _, res := range shape.Resources() {
		sources[res] = &held{}
	}
	usable := complete(Options{Documents: sources, Meter: meter, Logger: slog.New(slog.DiscardHandler)})
	_, err := New(usable)
	testkit.Check(t, err)
	for i, spoil := range []func(*Options){
		func(o *Options) { o.Documents = map[shape.Resource]Documents{shape.Rules: &held{}} },
		func(o *Options) { o.Meter = nil },
		func(o *Options) { o.Logger = nil },
		func(o *Options) { o.MaxAge = -1 },
		func(o *Options) { o.MaxBodyBytes = 0 },
		func(o *Options) { o.IdleTimeout = -1 },
		func(o *Options) { o.CORSOrigins = []string{"*", "https://a.example"} },
		func(o *Options) { o.CORSOrigins = []string{"a.example"} },
		func(o *Options) { o.CORSOrigins = []string{"https://a.example/"} },
		func(o *Options) { o.CORSOrigins = []string{"https://A.example"} },
		func(o *Options) { o.CORSOrigins = []string{""} },
	} {
		o := usable
		spoil(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%d: %+v is taken", i, o)
		}
	}
}

// closing is a listener that is closed while it gives out its last connection.
type closing struct {
	net.Listener
	accepting, closed chan struct{}
	last              net.Conn
}

func (l *closing) Accept() (net.Conn, error) {
	l.accepting <- struct{}{}
	<-l.closed
	<-time.After(50 * time.Millisecond) // in which Shutdown may look
	return l.last, nil
}

func (l *closing) Close() error { close(l.closed); return nil }

func TestShutdownWaitsForTheConnectionThatIsBeingAccepted(t *testing.T) {
	r := newRig(t, Options{})
	w := &wire{sent: [][]byte{[]byte("GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n")}, end: io.EOF}
	l := &closing{accepting: make(chan struct{}), closed: make(chan struct{}), last: w}
	go func() { testkit.Check(t, r.connections.Serve(l)) }()
	testkit.Receive(t, l.accepting)
	testkit.Must(t, r.connections.Shutdown(t.Context()))
	if got := w.answered.String(); !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, "\r\nConnection: close\r\n") {
		t.Errorf("answered %q", got)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, errors.Join(err, r.connections.Serve(ln))) // too late, which is no error
}

// TestFieldsSentAreThoseOfTheInterface compares the answers with the lists of docs/interface.md.
func TestFieldsSentAreThoseOfTheInterface(t *testing.T) {
	text, err := os.ReadFile("../docs/interface.md")
	testkit.Must(t, err)
	_, table, _ := strings.Cut(string(text), "\n## 7. Response headers\n")
	table, rest, _ := strings.Cut(table, "\n## ")
	_, cors, _ := strings.Cut(rest, "\n## 9. CORS\n")
	cors, _, _ = strings.Cut(cors, "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^- `([^`…]+)`[: ]").FindAllStringSubmatch(table+cors, -1) {
		documented[http.CanonicalHeaderKey(row[1])] = true
	}
	unsent := maps.Clone(documented)
	delete(unsent, "Strict-Transport-Security") // over TLS: TestUnixSocketsAndTLSAreServedAsAnyOther
	for _, origins := range [][]string{{"*"}, {"https://shop.example"}, nil} {
		r, expand := newRuleRig(t, Options{CORSOrigins: origins, HSTS: time.Hour})
		r.sources[shape.Rules].fail(upstream.ErrUnreachable)
		for _, request := range []string{
			getBanners, getBanners + "Accept-Encoding: gzip", getBanners + "If-None-Match: TAG", "HEAD " + bannersPath, "OPTIONS /gvapp/",
			"OPTIONS " + bannersPath + "\nAccess-Control-Request-Method: GET", "GET /gvapp", "GET /nope", "POST /gvapp/", "BREW /gvapp/",
			getBanners + "Accept: image/avif", "GET /cms/rules/", "GET /gvapp/?" + strings.Repeat("x", 5000),
		} {
			line, fields, _ := strings.Cut(expand.Replace(request), "\n")
			got := r.send(t, strings.TrimSuffix(line+" HTTP/1.1\nHost: example.org\nOrigin: https://shop.example\n"+fields, "\n"))
			for name := range got.Header {
				delete(unsent, name)
				if !documented[name] && name != "Connection" {
					t.Errorf("%.40s: %s is not documented", request, name)
				}
			}
		}
	}
	if len(documented) < 20 || len(unsent) > 0 {
		t.Errorf("%d fields are documented, and never sent %v", len(documented), unsent)
	}
}
